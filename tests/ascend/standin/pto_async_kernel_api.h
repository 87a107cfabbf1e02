// Conditions of a task that its kernel registers: the task ends once they hold.
#pragma once
#include <cstdint>

#include "intrinsic.h"
#include "standin/model.hpp"

struct AsyncCtx {
    int32_t *completion_count;
};
inline AsyncCtx get_async_ctx(__gm__ int64_t *) { return AsyncCtx{}; }
inline void save_expected_notification_counter(AsyncCtx &, volatile __gm__ void *counter, uint32_t expected,
                                               int line = __builtin_LINE()) {
    standin::defer(const_cast<const void *>(counter), static_cast<int32_t>(expected), line);
}
