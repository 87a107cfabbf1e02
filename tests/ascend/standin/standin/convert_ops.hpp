// TCVT: the pairs that a2a3 has, with their rounding.
#pragma once
#include "standin/vector_ops.hpp"

namespace standin {

template <typename To, typename From>
constexpr bool convertible =
    (std::is_same_v<From, float> && one_of<To, half, float, bfloat16_t, int64_t, int32_t, int16_t>) ||
    (std::is_same_v<From, half> && one_of<To, float, int32_t, int16_t, int8_t, uint8_t>) ||
    (std::is_same_v<From, bfloat16_t> && one_of<To, float, int32_t>) ||
    (std::is_same_v<From, int32_t> && one_of<To, float, half, int16_t, int64_t>) ||
    (std::is_same_v<From, int64_t> && one_of<To, float, int32_t>) ||
    (std::is_same_v<From, int16_t> && one_of<To, half, float>) ||
    (one_of<From, int8_t, uint8_t> && std::is_same_v<To, half>);

template <typename To, typename From>
To convert(const Op &op, From x, pto::RoundMode mode) {
    if constexpr (is_floating<From> && is_floating<To>) {
        const float v = static_cast<float>(x);
        if constexpr (!std::is_same_v<To, float>) {
            return narrow<To>(v, mode);
        } else if constexpr (std::is_same_v<From, float>) {
            const bool nearest = mode == pto::RoundMode::CAST_NONE || mode == pto::RoundMode::CAST_ODD;
            return static_cast<float>(whole(v, nearest ? pto::RoundMode::CAST_RINT : mode));
        } else {
            return v;
        }
    } else if constexpr (is_floating<From>) {
        const double v = whole(static_cast<double>(static_cast<float>(x)), mode);
        const double low = static_cast<double>(std::numeric_limits<To>::min());
        const double high = std::is_signed_v<To> ? -low : static_cast<double>(std::numeric_limits<To>::max()) + 1;
        const bool fits = v >= low && v < high;
        if (!fits) fail(op, "%g does not fit the integer type, and what happens then is not described", v);
        return static_cast<To>(v);
    } else if constexpr (is_floating<To>) {
        // Every integer of up to 53 bits is a double; the conversion to the type rounds once.
        if (mode != pto::RoundMode::CAST_NONE && mode != pto::RoundMode::CAST_RINT) {
            fail(op, "integer to float with this rounding is not modelled: use CAST_NONE or CAST_RINT");
        }
        if constexpr (std::is_same_v<To, half>) {
            // To odd first, so that the second rounding is exact.
            const float v = static_cast<float>(x);
            if (static_cast<double>(v) == static_cast<double>(x)) return static_cast<half>(v);
            const float inner = std::fabs(v) > std::fabs(static_cast<double>(x)) ? std::nextafter(v, 0.0f) : v;
            return static_cast<half>(bits_of<float>(bits_of<uint32_t>(inner) | 1u));
        } else {
            return static_cast<float>(x);
        }
    } else {
        if (static_cast<From>(static_cast<To>(x)) != x) {
            fail(op, "%lld does not fit the integer type, and what happens then is not described", Long(x));
        }
        return static_cast<To>(x);
    }
}

}  // namespace standin

namespace pto {

template <typename D, typename A>
RecordEvent TCVT(D &dst, A &src, RoundMode mode, int line = __builtin_LINE()) {
    using To = typename D::DType;
    using From = typename A::DType;
    static_assert(standin::convertible<To, From>, "TCVT: a2a3 has no conversion between these element types");
    const standin::Op op = standin::begin("TCVT", standin::LaneV, line);
    if (sizeof(To) != sizeof(From)) standin::check_overlap(op, dst, src, false);
    standin::elementwise(op, dst, [&](From x) { return standin::convert<To>(op, x, mode); }, src);
    return {};
}

}  // namespace pto
