// The communication context a kernel gets: layout as on the device.
#pragma once
#include <cstddef>
#include <cstdint>

static constexpr uint32_t COMM_MAX_RANK_NUM = 64;

struct CommContext {
    uint64_t workSpace, workSpaceSize;
    uint32_t rankId, rankNum;
    uint64_t winSize;
    uint64_t windowsIn[COMM_MAX_RANK_NUM], windowsOut[COMM_MAX_RANK_NUM];
};
static_assert(sizeof(CommContext) == 1056 && offsetof(CommContext, rankId) == 16 && offsetof(CommContext, winSize) == 24 &&
              offsetof(CommContext, windowsIn) == 32 && offsetof(CommContext, windowsOut) == 544);
