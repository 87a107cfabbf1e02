// Notify, wait, test. Only single signals: matrices of signals share lines.
#pragma once
#include "pto/comm/comm_types.hpp"

namespace pto::comm {

inline void TNOTIFY(Signal &slot, int32_t value, NotifyOp op, int line = __builtin_LINE()) {
    standin::notify(slot.data(), value, op == NotifyOp::AtomicAdd, line);
}
inline void TWAIT(Signal &slot, int32_t value, WaitCmp cmp, int line = __builtin_LINE()) {
    standin::await(slot.data(), value, static_cast<int>(cmp), line);
}
inline bool TTEST(Signal &slot, int32_t value, WaitCmp cmp, int line = __builtin_LINE()) {
    return standin::test(slot.data(), value, static_cast<int>(cmp), line);
}

}  // namespace pto::comm
