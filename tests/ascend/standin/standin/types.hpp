// Element types and conversions: exact IEEE values, one rounding, denormals kept.
#pragma once
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

// GCC computes _Float16 in float and rounds once.
using half = _Float16;
using float16_t = half;
using float32_t = float;

struct bfloat16_t {
    uint16_t bits;
    bfloat16_t() = default;
    // Nearest, ties to even.
    explicit bfloat16_t(float x) {
        uint32_t u;
        std::memcpy(&u, &x, 4);
        if (std::isnan(x)) {
            bits = static_cast<uint16_t>(u >> 16 | 0x40);
        } else {
            bits = static_cast<uint16_t>((u + 0x7fff + (u >> 16 & 1)) >> 16);
        }
    }
    explicit operator float() const {
        const uint32_t u = static_cast<uint32_t>(bits) << 16;
        float x;
        std::memcpy(&x, &u, 4);
        return x;
    }
};
static_assert(sizeof(bfloat16_t) == 2 && sizeof(half) == 2);

namespace pto {
enum class RoundMode : uint8_t {
    CAST_NONE = 0,
    CAST_RINT = 1,
    CAST_ROUND = 2,
    CAST_FLOOR = 3,
    CAST_CEIL = 4,
    CAST_TRUNC = 5,
    CAST_ODD = 6,
};
}  // namespace pto

namespace standin {

template <typename T, typename... Us>
constexpr bool one_of = (std::is_same_v<T, Us> || ...);
template <typename T>
constexpr bool is_float16 = one_of<T, half, bfloat16_t>;
template <typename T>
constexpr bool is_floating = one_of<T, float, half, bfloat16_t>;

template <typename To, typename From>
To bits_of(From x) {
    static_assert(sizeof(To) == sizeof(From));
    To y;
    std::memcpy(&y, &x, sizeof y);
    return y;
}

// The 16-bit value next to x towards plus (up) or minus infinity; zeros count as one value.
template <typename T>
T neighbour(T x, bool up) {
    uint16_t u = bits_of<uint16_t>(x);
    const bool negative = u >> 15;
    if ((u & 0x7fff) == 0) {
        u = up ? 0x0001 : 0x8001;
    } else {
        u = static_cast<uint16_t>(negative == up ? u - 1 : u + 1);
    }
    return bits_of<T>(u);
}

// A float as a 16-bit float, rounded once.
template <typename T>
T narrow(float x, pto::RoundMode mode) {
    const T nearest = static_cast<T>(x);
    const float near = static_cast<float>(nearest);
    if (std::isnan(x) || near == x || mode == pto::RoundMode::CAST_NONE || mode == pto::RoundMode::CAST_RINT) {
        return nearest;
    }
    const T low = near < x ? nearest : neighbour(nearest, false);
    const T high = near < x ? neighbour(nearest, true) : nearest;
    switch (mode) {
        case pto::RoundMode::CAST_FLOOR: return low;
        case pto::RoundMode::CAST_CEIL: return high;
        case pto::RoundMode::CAST_TRUNC: return x < 0 ? high : low;
        case pto::RoundMode::CAST_ODD: return bits_of<uint16_t>(low) & 1 ? low : high;
        default: break;
    }
    // Ties away from zero. Beside an infinity there is no tie: nearest has decided.
    const double a = static_cast<double>(static_cast<float>(low));
    const double b = static_cast<double>(static_cast<float>(high));
    if (std::isinf(a) || std::isinf(b) || static_cast<double>(x) - a != b - static_cast<double>(x)) {
        return nearest;
    }
    return x < 0 ? low : high;
}

// A whole number near x.
inline double whole(double x, pto::RoundMode mode) {
    switch (mode) {
        case pto::RoundMode::CAST_RINT: return std::nearbyint(x);
        case pto::RoundMode::CAST_ROUND: return std::round(x);
        case pto::RoundMode::CAST_FLOOR: return std::floor(x);
        case pto::RoundMode::CAST_CEIL: return std::ceil(x);
        default: return std::trunc(x);
    }
}

// Arithmetic in the type's own meaning: floats in float and rounded once, integers modulo 2^bits.
template <typename T, typename F>
T in_float(T a, T b, F f) {
    return static_cast<T>(f(static_cast<float>(a), static_cast<float>(b)));
}
template <typename T>
using Word = std::make_unsigned_t<std::conditional_t<std::is_integral_v<T>, T, int>>;

template <typename T>
T add(T a, T b) {
    if constexpr (is_floating<T>) {
        return in_float(a, b, [](float x, float y) { return x + y; });
    } else {
        return static_cast<T>(static_cast<Word<T>>(a) + static_cast<Word<T>>(b));
    }
}
template <typename T>
T sub(T a, T b) {
    if constexpr (is_floating<T>) {
        return in_float(a, b, [](float x, float y) { return x - y; });
    } else {
        return static_cast<T>(static_cast<Word<T>>(a) - static_cast<Word<T>>(b));
    }
}
template <typename T>
T mul(T a, T b) {
    if constexpr (is_floating<T>) {
        return in_float(a, b, [](float x, float y) { return x * y; });
    } else {
        return static_cast<T>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
    }
}
template <typename T>
T div(T a, T b) {
    return in_float(a, b, [](float x, float y) { return x / y; });
}
// A NaN wins; +0 is above -0.
template <bool Max, typename T>
T extreme(T a, T b) {
    if constexpr (is_floating<T>) {
        const float x = static_cast<float>(a), y = static_cast<float>(b);
        if (std::isnan(x) || std::isnan(y)) return static_cast<T>(std::numeric_limits<float>::quiet_NaN());
        if (x == y) return (std::signbit(x) == Max) ? b : a;
        return (x > y) == Max ? a : b;
    } else {
        return (a > b) == Max ? a : b;
    }
}

}  // namespace standin
