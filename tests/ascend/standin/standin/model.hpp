// What the instruction headers ask of the model: clocks, memory, flags, signals. Light on purpose: every kernel
// includes it, model.cpp implements it and is compiled once.
#pragma once
#include <cstddef>
#include <cstdint>

namespace standin {

// For %llu and %lld.
using Big = unsigned long long;
using Long = long long;

// Pipes that carry instructions; the numbers index clocks. A vector core has S, V, MTE2 and MTE3, a cube core S, MTE2, MTE1,
// M and FIX.
enum Lane : int { LaneS, LaneV, LaneMte2, LaneMte3, LaneMte1, LaneM, LaneFix, Lanes };

// UB that tiles may use: the instruction library keeps the last 8 of 192 KiB for itself.
constexpr uint64_t kUbBytes = 184 * 1024;
constexpr uint64_t kLineBytes = 64;
// Conditions of a task, on all its blocks together.
constexpr size_t kMostConditions = 64;

// The memories inside a core stand one after another in one array.
enum Space : int { SpaceUb, SpaceL1, SpaceL0a, SpaceL0b, SpaceL0c, Spaces };
constexpr uint64_t kSpaceBytes[Spaces] = {kUbBytes, 512 * 1024, 64 * 1024, 64 * 1024, 128 * 1024};
constexpr const char *kSpaceNames[Spaces] = {"UB", "L1", "L0A", "L0B", "L0C"};
constexpr uint64_t kSpaceStep = uint64_t{1} << 20;
constexpr uint64_t space_base(int space) { return static_cast<uint64_t>(space) * kSpaceStep; }

// A kernel of a program.
struct Kernel {
    void (*entry)(int64_t *);
    int body_line;  // where its body begins; helpers are above it
    bool cube;
};
// Kernels of the program; each runs on cores of its own, a block on each.
extern int kernel_count;
// Blocks that a task of the job has at most, and cores of a rank: that many for every kernel.
extern int most_blocks;
inline int core_count() { return kernel_count * most_blocks; }

// One instruction in execution: who, when, where. Two accesses of one instruction never race with each other.
struct Op {
    const char *name;
    int line;
    int lane;
    int rank;
    int core;
    int call;
    uint32_t time;
};

// Ends the run of all ranks. The text says what was wrong; rank, pipe, instruction and line are put before it.
[[noreturn]] void fail(const Op &op, const char *format, ...) __attribute__((format(printf, 2, 3)));
// The same where no instruction is being executed.
[[noreturn]] void fail_plain(const char *format, ...) __attribute__((format(printf, 1, 2)));

// A new instruction of the calling rank on a pipe.
Op begin(const char *name, int lane, int line);

// Whether a numbered line of a guarded kernel stays.
bool keep(int line);
// The line of the kernel's body that is being executed: what instructions in helper functions are reported with.
void at(int line);

// --- memories inside the core ---
// The bytes [at, at + bytes) of the core's memories, checked for order; read: the number of undefined bytes among them.
size_t ub_read(const Op &op, uint64_t at, uint64_t bytes);
void ub_write(const Op &op, uint64_t at, uint64_t bytes);
bool ub_defined(uint64_t at, uint64_t bytes);
void ub_undefine(uint64_t at, uint64_t bytes);
uint8_t *ub(uint64_t at);

// --- global memory ---
// Copies a run of bytes, checked for bounds, order and definedness.
void global_to_ub(const Op &op, const void *from, uint64_t at, uint64_t bytes);
void ub_to_global(const Op &op, uint64_t at, void *to, uint64_t bytes);
// The same where the bytes that are written are other ones: made of those of the core, which are read.
void core_to_global(const Op &op, uint64_t at, uint64_t read, void *to, const void *made, uint64_t bytes);

// --- synchronisation ---
void flag_set(int from, int to, int event, int line);
void flag_wait(int from, int to, int event, int line);
void barrier(int pipe, int line);
void drain_to_memory(int line);
void write_back(const volatile void *line_of, int line);
void notify(const void *slot, int32_t value, bool add, int line);
void await(const void *slot, int32_t value, int cmp, int line);
bool test(const void *slot, int32_t value, int cmp, int line);
// A condition of the running task: it ends once the counter is at least that value.
void defer(const void *slot, int32_t value, int line);

}  // namespace standin
