// The state of one job: ranks, their memories, counters, and whose turn it is.
#pragma once
#include <array>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "platform_comm/comm_context.h"
#include "standin/shadow.hpp"

namespace standin {

// Bytes around every region that belong to nothing: small overruns do not end in another region.
constexpr uint64_t kGuard = 1 << 20;

// A run of bytes kernels may point into.
struct Region {
    std::string name;  // "tensor out of rank 1"
    int rank;
    bool window;
    bool writable;
    uint64_t size;
    std::unique_ptr<uint8_t[]> storage;
    uint8_t *bytes;
    // What instructions have made of the bytes: where they differ, a scalar store did it.
    std::vector<uint8_t> expected;
    Shadow shadow;
    // Bytes that the running task takes as an input, first and end.
    std::vector<std::pair<uint64_t, uint64_t>> inputs;

    Region(std::string name, int rank, bool window, uint64_t size, uint8_t fill);
    bool holds(const void *p) const {
        const auto *b = static_cast<const uint8_t *>(p);
        return b >= bytes && b < bytes + size;
    }
};

// A counter: one line of a window. A line without adds or waits is data or free.
struct Counter {
    uint64_t offset;  // of the four bytes in the window
    int writer = -1;  // a worker
    std::vector<Clock> adds;  // what the writer had released, and what it had heard to be over, for each add
    Op first;
};

struct Stop {};

// Those of the program that runs.
extern const Kernel *const *kernels;

// What a task of a launch took, and what was ordered before its end.
struct Submitted {
    struct Taken {
        uint64_t from, to;  // bytes of memory
    };
    std::vector<Taken> wrote;
    Clock end;
    int kernel;
};

// What a worker has executed: numbers of instructions, and bytes of transfers. Barriers of one pipe by its lane.
enum Executed : int {
    Loads, Stores, BytesLoaded, BytesStored, FlagsSet, FlagsWaited, BarriersAll, Dsbs, Notifies, Waits, VectorOps,
    BarriersOfLane, ExecutedCounts = BarriersOfLane + Lanes
};

// Collecting: waits for the other blocks of its task.
enum class Status { Ready, Waiting, Joining, Collecting, Done };

// A rank, which runs its orchestration and block 0 of each task; or another block of its tasks.
struct Rank {
    int id = 0;
    int block = 0;
    int worker = 0;
    int call = 0;
    Status status = Status::Ready;
    std::condition_variable wake;

    int kernel = 0;               // of those of the program
    int core() const { return kernel * most_blocks + block; }
    uint32_t &count(int lane) { return counts[static_cast<size_t>(core())][static_cast<size_t>(lane)]; }
    int agent_of(int lane) const { return agent(id, core(), lane); }
    std::vector<Submitted> tasks;  // of this call
    Clock start;                  // what the call is ordered after
    std::vector<uint8_t> ub;      // the memories of the core
    Shadow ub_shadow;
    std::vector<std::array<uint32_t, Lanes>> counts;  // instructions so far, by core
    Clock known[Lanes];           // what the next instruction of a pipe is ordered after
    Clock pending;                // waited for, before the acquiring barrier
    Clock drained, released;      // as of the last pipe_barrier(PIPE_ALL); of the dsb after it
    Clock heard;                  // what is over according to all waits so far: the next notify passes that on
    std::map<int, std::pair<Clock, int>> flags;  // set and not waited for: clock and line
    int polls = 0;                // TTESTs in a row that said no
    int dcci_line = 0;            // a dcci without a dsb after it
    int line = 0;                 // of the kernel's body
    Op last{}, before{};          // the newest instruction, and the one before it
    std::array<uint64_t, ExecutedCounts> executed{};  // in this call
    // Conditions of the running task.
    struct Condition {
        const void *slot;
        int32_t value;
        int line;
    };
    std::vector<Condition> conditions;
    // While waiting.
    uint64_t wait_offset = 0;
    int32_t wait_value = 0;
    int wait_cmp = 0;

    std::vector<std::unique_ptr<Region>> tensors;  // of this call
    CommContext context{};
};

struct World {
    std::mutex lock;
    int turn = 0;
    std::string failure;  // empty: none
    std::vector<std::unique_ptr<Rank>> ranks;
    std::vector<Rank *> workers;                  // all of them: blocks 0 in front, one of each rank, then blocks 1
    std::vector<std::unique_ptr<Rank>> blocks;
    std::vector<std::unique_ptr<Region>> windows;
    std::vector<std::map<uint64_t, Counter>> counters;  // per rank, by line
    std::vector<std::set<uint64_t>> data_lines;         // per rank: lines of the window that hold data
    std::set<int> dropped;
    bool window_defined = false;
    bool join_calls = false;
    uint64_t instructions = 0;
    uint64_t order = 0;  // 0: ranks in turn; else seed of a choice

    World(int ranks, uint64_t window_bytes, bool window_defined);
    ~World();
    size_t agents() const { return ranks.size() * static_cast<size_t>(core_count()) * Lanes; }
    Rank &block(const Rank &rank, int n) { return *workers[static_cast<size_t>(n) * ranks.size() + static_cast<size_t>(rank.id)]; }

    // Called by a rank's thread. All hold the lock while they run.
    void begin_task(Rank &rank);
    void end_task(Rank &rank);
    void end_call(Rank &rank);
    void yield_turn(Rank &rank, Status status);  // and returns when it is the rank's turn again
    void finish(Rank &rank);
    void finish_block(Rank &block);
    void pass_on(int from);
    uint64_t random();
};

extern thread_local World *world;
extern thread_local Rank *self;

}  // namespace standin
