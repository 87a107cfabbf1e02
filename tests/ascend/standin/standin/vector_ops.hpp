// Elementwise instructions of the vector pipe, with the element types a2a3 has for each.
#pragma once
#include <vector>

#include "standin/cube_ops.hpp"
#include "standin/tile.hpp"

namespace standin {

// dst = f(sources), elementwise; an element is defined if the source elements are.
template <typename Dst, typename F, typename... Src>
void elementwise(const Op &op, Dst &dst, F f, Src &...src) {
    using T = typename Dst::DType;
    check_tile(op, dst);
    (check_tile(op, src), ...);
    (check_same_valid(op, dst, src), ...);
    (check_overlap(op, dst, src, true), ...);
    const uint64_t cols = dst.GetValidCol();
    std::vector<uint64_t> undefined;
    for (uint64_t r = 0; r < dst.GetValidRow(); ++r) {
        undefined.clear();
        size_t gaps = 0;
        ((gaps += ub_read(op, at(src, r, 0), cols * sizeof(typename Src::DType))), ...);
        for (uint64_t c = 0; gaps != 0 && c < cols; ++c) {
            if (!(ub_defined(at(src, r, c), sizeof(typename Src::DType)) && ...)) undefined.push_back(c);
        }
        ub_write(op, at(dst, r, 0), cols * sizeof(T));
        size_t next = 0;
        for (uint64_t c = 0; c < cols; ++c) {
            // Of an element without a defined value, the function has no value that counts.
            if (next < undefined.size() && undefined[next] == c) {
                ++next;
                continue;
            }
            const auto element = [&](const auto &t) {
                typename std::decay_t<decltype(t)>::DType x;
                std::memcpy(&x, ub(at(t, r, c)), sizeof x);
                return x;
            };
            (void)element;
            const T y = f(element(src)...);
            std::memcpy(ub(at(dst, r, c)), &y, sizeof y);
        }
        for (uint64_t c : undefined) ub_undefine(at(dst, r, c), sizeof(T));
    }
}

template <typename T>
constexpr bool arithmetic = one_of<T, int32_t, int16_t, half, float>;
template <typename T>
constexpr bool real = one_of<T, half, float>;

}  // namespace standin

namespace pto {

// Two tiles; TYPES says which element types the instruction has.
#define STANDIN_BINARY(NAME, TYPES, WORDS, F)                                                          \
    template <typename D, typename A, typename B>                                                      \
    RecordEvent NAME(D &dst, A &a, B &b, int line = __builtin_LINE()) {                                \
        using T = typename D::DType;                                                                   \
        static_assert(std::is_same_v<T, typename A::DType> && std::is_same_v<T, typename B::DType>,    \
                      #NAME ": the tiles differ in element type");                                     \
        static_assert(standin::TYPES<T>, #NAME ": element type must be " WORDS);                       \
        const standin::Op op = standin::begin(#NAME, standin::LaneV, line);                            \
        standin::elementwise(op, dst, [](T x, T y) { return F(x, y); }, a, b);                         \
        return {};                                                                                     \
    }
#define STANDIN_SCALAR(NAME, TYPES, WORDS, F)                                                          \
    template <typename D, typename A>                                                                  \
    RecordEvent NAME(D &dst, A &a, typename A::DType scalar, int line = __builtin_LINE()) {            \
        using T = typename D::DType;                                                                   \
        static_assert(std::is_same_v<T, typename A::DType>, #NAME ": the tiles differ in element type"); \
        static_assert(standin::TYPES<T>, #NAME ": element type must be " WORDS);                       \
        const standin::Op op = standin::begin(#NAME, standin::LaneV, line);                            \
        standin::elementwise(op, dst, [scalar](T x) { return F(x, scalar); }, a);                      \
        return {};                                                                                     \
    }
#define STANDIN_UNARY(NAME, F)                                                                         \
    template <typename D, typename A>                                                                  \
    RecordEvent NAME(D &dst, A &a, int line = __builtin_LINE()) {                                      \
        using T = typename D::DType;                                                                   \
        static_assert(std::is_same_v<T, typename A::DType>, #NAME ": the tiles differ in element type"); \
        static_assert(standin::real<T>, #NAME ": element type must be half or float");                 \
        const standin::Op op = standin::begin(#NAME, standin::LaneV, line);                            \
        standin::elementwise(op, dst, [](T e) { const float x = static_cast<float>(e); return static_cast<T>(F); }, a); \
        return {};                                                                                     \
    }
#define STANDIN_FOUR "int32_t, int16_t, half or float"

STANDIN_BINARY(TADD, arithmetic, STANDIN_FOUR, standin::add)
STANDIN_BINARY(TSUB, arithmetic, STANDIN_FOUR, standin::sub)
STANDIN_BINARY(TMUL, arithmetic, STANDIN_FOUR, standin::mul)
STANDIN_BINARY(TMAX, arithmetic, STANDIN_FOUR, standin::extreme<true>)
STANDIN_BINARY(TMIN, arithmetic, STANDIN_FOUR, standin::extreme<false>)
STANDIN_BINARY(TDIV, real, "half or float", standin::div)
STANDIN_SCALAR(TADDS, arithmetic, STANDIN_FOUR, standin::add)
STANDIN_SCALAR(TSUBS, arithmetic, STANDIN_FOUR, standin::sub)
STANDIN_SCALAR(TMULS, arithmetic, STANDIN_FOUR, standin::mul)
STANDIN_SCALAR(TMAXS, arithmetic, STANDIN_FOUR, standin::extreme<true>)
STANDIN_SCALAR(TMINS, arithmetic, STANDIN_FOUR, standin::extreme<false>)
STANDIN_SCALAR(TDIVS, real, "half or float (integers are not modelled)", standin::div)
STANDIN_UNARY(TABS, std::fabs(x))
STANDIN_UNARY(TEXP, std::exp(x))
STANDIN_UNARY(TLOG, std::log(x))
STANDIN_UNARY(TSQRT, std::sqrt(x))
STANDIN_UNARY(TRSQRT, 1.0f / std::sqrt(x))
#undef STANDIN_BINARY
#undef STANDIN_SCALAR
#undef STANDIN_UNARY

// scalar / element.
template <typename D, typename A>
RecordEvent TDIVS(D &dst, typename D::DType scalar, A &a, int line = __builtin_LINE()) {
    using T = typename D::DType;
    static_assert(std::is_same_v<T, typename A::DType>, "TDIVS: the tiles differ in element type");
    static_assert(standin::real<T>, "TDIVS: element type must be half or float (integers are not modelled)");
    const standin::Op op = standin::begin("TDIVS", standin::LaneV, line);
    standin::elementwise(op, dst, [scalar](T x) { return standin::div(scalar, x); }, a);
    return {};
}

template <typename D, typename A>
RecordEvent TRECIP(D &dst, A &a, int line = __builtin_LINE()) {
    using T = typename D::DType;
    static_assert(std::is_same_v<T, typename A::DType>, "TRECIP: the tiles differ in element type");
    static_assert(standin::real<T>, "TRECIP: element type must be half or float");
    const standin::Op op = standin::begin("TRECIP", standin::LaneV, line);
    if (dst.address == a.address) standin::fail(op, "in place, which a2a3 does not have");
    standin::elementwise(op, dst, [](T x) { return standin::div(static_cast<T>(1.0f), x); }, a);
    return {};
}

// The library multiplies by -1.
template <typename D, typename A>
RecordEvent TNEG(D &dst, A &a, int line = __builtin_LINE()) {
    using T = typename D::DType;
    static_assert(std::is_same_v<T, typename A::DType>, "TNEG: the tiles differ in element type");
    static_assert(standin::arithmetic<T>, "TNEG: element type must be " STANDIN_FOUR);
    const standin::Op op = standin::begin("TNEG", standin::LaneV, line);
    standin::elementwise(op, dst, [](T x) { return standin::mul(x, static_cast<T>(-1)); }, a);
    return {};
}
#undef STANDIN_FOUR

template <typename D>
RecordEvent TEXPANDS(D &dst, typename D::DType scalar, int line = __builtin_LINE()) {
    using T = typename D::DType;
    static_assert(standin::one_of<T, int8_t, uint8_t, int16_t, uint16_t, int32_t, uint32_t, half, bfloat16_t, float>,
                  "TEXPANDS: element type must have 8, 16 or 32 bits");
    const standin::Op op = standin::begin("TEXPANDS", standin::LaneV, line);
    standin::elementwise(op, dst, [scalar] { return scalar; });
    return {};
}

// Copies whole 32-byte blocks, so what is beyond the valid columns changes too.
template <typename D, typename A>
RecordEvent TMOV(D &dst, A &src, int line = __builtin_LINE()) {
    static_assert(std::is_same_v<typename D::DType, typename A::DType>, "TMOV: the tiles differ in element type");
    static_assert(D::Rows == A::Rows && D::Cols == A::Cols, "TMOV: the tiles differ in size");
    static_assert(!D::kCube, "TMOV is modelled in UB; TEXTRACT moves blocks of L1");
    const standin::Op op = standin::begin("TMOV", standin::LaneV, line);
    standin::elementwise(op, dst, [](typename D::DType x) { return x; }, src);
    const uint64_t bytes = dst.GetValidCol() * sizeof(typename D::DType), block = (bytes + 31) / 32 * 32;
    for (uint64_t r = 0; block != bytes && r < dst.GetValidRow(); ++r) {
        const uint64_t to = standin::at(dst, r, 0) + bytes;
        standin::ub_write(op, to, block - bytes);
        standin::ub_undefine(to, block - bytes);
    }
    return {};
}

}  // namespace pto
