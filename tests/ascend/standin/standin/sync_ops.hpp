// Flags, barriers, fences and cache maintenance.
#pragma once
#include "standin/model.hpp"

enum pipe_t : int { PIPE_S, PIPE_V, PIPE_MTE1, PIPE_MTE2, PIPE_MTE3, PIPE_M, PIPE_ALL, PIPE_FIX };
enum event_t : int { EVENT_ID0, EVENT_ID1, EVENT_ID2, EVENT_ID3, EVENT_ID4, EVENT_ID5, EVENT_ID6, EVENT_ID7 };
enum mem_dsb_t : int { DSB_ALL, DSB_DDR, DSB_UB };
// Only the qualified names: the simulator has no others, and the device's compiler takes them too.
enum class cache_line_t : int { SINGLE_CACHE_LINE, ENTIRE_DATA_CACHE };
enum class dcci_dst_t : int { CACHELINE_ALL, CACHELINE_UB, CACHELINE_OUT };

inline void set_flag(pipe_t from, pipe_t to, int event, int line = __builtin_LINE()) {
    standin::flag_set(from, to, event, line);
}
inline void wait_flag(pipe_t from, pipe_t to, int event, int line = __builtin_LINE()) {
    standin::flag_wait(from, to, event, line);
}
inline void pipe_barrier(pipe_t pipe, int line = __builtin_LINE()) { standin::barrier(pipe, line); }
inline void dsb(mem_dsb_t what, int line = __builtin_LINE()) {
    if (what != DSB_DDR && what != DSB_ALL) return;  // UB only: nothing of it leaves the core
    standin::drain_to_memory(line);
}
inline void dcci(const volatile void *at, cache_line_t how, dcci_dst_t to, int line = __builtin_LINE()) {
    if (how != cache_line_t::SINGLE_CACHE_LINE || to != dcci_dst_t::CACHELINE_OUT) {
        standin::fail_plain("kernel line %d: dcci is modelled as (pointer, SINGLE_CACHE_LINE, CACHELINE_OUT) only", line);
    }
    standin::write_back(at, line);
}
