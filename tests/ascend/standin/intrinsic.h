// Block contexts behind the arguments.
#pragma once
#include <cstdint>
#ifndef __gm__
#define __gm__
#endif

struct LocalContext {
    int32_t block_idx, block_num;
};
struct GlobalContext {
    int32_t sub_block_id;
};
inline int32_t get_block_idx(__gm__ int64_t *args) { return reinterpret_cast<LocalContext *>(args[48])->block_idx; }
inline int32_t get_block_num(__gm__ int64_t *args) { return reinterpret_cast<LocalContext *>(args[48])->block_num; }
inline int32_t get_sub_block_id(__gm__ int64_t *args) { return reinterpret_cast<GlobalContext *>(args[49])->sub_block_id; }
