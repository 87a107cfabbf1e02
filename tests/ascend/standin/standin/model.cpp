// The memory model: what each synchronisation orders, and the check of every access against it.
//
// Agents are (rank, core, pipe). Instructions of a pipe are ordered with others only by
//   set_flag/wait_flag       all before the set, with all of the waiting pipe after the wait
//   pipe_barrier(PIPE_x)     within x
//   pipe_barrier(PIPE_ALL)   all pipes; and what TWAITs before it have waited for
// and between ranks only by pipe_barrier(PIPE_ALL), dsb, TNOTIFY - TWAIT, pipe_barrier(PIPE_ALL): a notify carries what
// the last dsb found drained, a wait for v takes what the first v adds carried. TTEST orders nothing. That accesses of
// others are over is passed on by a notify without a fence: TWAIT and TNOTIFY follow each other on the scalar pipe.
// Data moves at once; an access that is not ordered after what it conflicts with ends the run, whatever order ranks
// happened to run in. One rank runs at a time.
//
// The tasks of a call run one after another here, on cores of their own: a task is ordered after another one of the call only if
// it takes, overlapping, what that one took to write (`add_inout`, `add_output`), and if it does not merely write it
// (`add_output` looks nothing up), or if it was told to (`add_dep`). What a task only reads orders nothing behind it.
#include "standin/world.hpp"

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstring>

#include "standin/sync_ops.hpp"

namespace standin {

thread_local World *world = nullptr;
thread_local Rank *self = nullptr;
int most_blocks = 1;

namespace {

// A kernel that runs away ends.
constexpr uint64_t kMostInstructions = 50'000'000;
constexpr int kMostPolls = 1000;

const char *const kLaneNames[Lanes] = {"S", "V", "MTE2", "MTE3", "MTE1", "M", "FIX"};
const bool kOfVector[Lanes] = {true, true, true, true, false, false, false};
const bool kOfCube[Lanes] = {true, false, true, false, true, true, true};

const Kernel &running() { return *kernels[self->kernel]; }
bool has(int lane) { return (running().cube ? kOfCube : kOfVector)[lane]; }

std::string where(const Op &op) {
    char text[160];
    std::snprintf(text, sizeof text, "rank %d %s %s at kernel line %d (call %d)", op.rank, kLaneNames[op.lane], op.name,
                  op.line, op.call);
    std::string out;
    if (kernel_count > 1) out += "task " + std::to_string(op.core / most_blocks) + " on ";
    if (most_blocks > 1) out += "core " + std::to_string(op.core % most_blocks) + " of ";
    return out + text;
}

std::string format(const char *f, va_list args) {
    char text[1024];
    std::vsnprintf(text, sizeof text, f, args);
    return text;
}

[[noreturn]] void stop(const std::string &text) {
    if (world->failure.empty()) world->failure = text;
    for (Rank *r : world->workers) r->wake.notify_all();
    throw Stop{};
}

// Tensors of the call belong to the rank, not to a block.
std::vector<std::unique_ptr<Region>> &tensors() { return world->ranks[static_cast<size_t>(self->id)]->tensors; }

int lane_of(const Op &op, int pipe) {
    int lane = Lanes;
    switch (pipe) {
        case PIPE_S: lane = LaneS; break;
        case PIPE_V: lane = LaneV; break;
        case PIPE_MTE2: lane = LaneMte2; break;
        case PIPE_MTE3: lane = LaneMte3; break;
        case PIPE_MTE1: lane = LaneMte1; break;
        case PIPE_M: lane = LaneM; break;
        case PIPE_FIX: lane = LaneFix; break;
        default: break;
    }
    if (lane == Lanes || !has(lane)) {
        fail(op, "a %s core has no such pipe (%d); on the device this hangs", running().cube ? "cube" : "vector", pipe);
    }
    return lane;
}

// Words for what is missing between two accesses.
std::string missing(const Op &now, const Op &earlier) {
    const std::string lane = kLaneNames[now.lane];
    if (now.rank == earlier.rank && now.core != earlier.core && now.core / most_blocks == earlier.core / most_blocks) {
        return "no release (pipe_barrier(PIPE_ALL), dsb), notify, wait and acquire (pipe_barrier(PIPE_ALL)) orders these cores";
    }
    if (now.rank == earlier.rank && now.core != earlier.core) {
        return "nothing orders their tasks: the later one takes nothing that the earlier one wrote, and was not told to wait";
    }
    if (now.rank != earlier.rank) {
        return "no release (pipe_barrier(PIPE_ALL), dsb), notify, wait and acquire (pipe_barrier(PIPE_ALL)) orders them";
    }
    if (now.lane == earlier.lane) return "no pipe_barrier(PIPE_" + lane + ") orders them";
    return std::string("no flag from ") + kLaneNames[earlier.lane] + " to " + lane + " orders them";
}

[[noreturn]] void race(const Op &op, const Op &other, const char *verb, const std::string &memory, uint64_t from,
                       uint64_t to) {
    fail(op, "race: %s %s bytes %llu..%llu, not ordered after %s: %s", verb, memory.c_str(),
         Big(from), Big(to), where(other).c_str(),
         missing(op, other).c_str());
}

const Clock &known(const Op &op) { return self->known[op.lane]; }

Region *region_of(const void *p) {
    for (auto &w : world->windows) {
        if (w->holds(p)) return w.get();
    }
    for (auto &r : world->ranks) {
        for (auto &t : r->tensors) {
            if (t->holds(p)) return t.get();
        }
    }
    return nullptr;
}

// The region an access of global memory is in, all of it.
Region &locate(const Op &op, const void *p, uint64_t bytes, uint64_t &offset) {
    Region *r = region_of(p);
    if (r == nullptr) {
        const auto *b = static_cast<const uint8_t *>(p);
        const auto near = [&](const Region &n) {
            if (b < n.bytes - kGuard || b >= n.bytes + n.size + kGuard) return;
            fail(op, "out of bounds: byte %lld of %s, which has %llu", Long(b - n.bytes),
                 n.name.c_str(), Big(n.size));
        };
        for (auto &w : world->windows) near(*w);
        for (auto &t : tensors()) near(*t);
        fail(op, "out of bounds: the address is in no tensor and in no window");
    }
    offset = static_cast<uint64_t>(static_cast<const uint8_t *>(p) - r->bytes);
    if (offset + bytes > r->size) {
        fail(op, "out of bounds: bytes %llu..%llu of %s, which has %llu", Big(offset),
             Big(offset + bytes), r->name.c_str(), Big(r->size));
    }
    if (!r->window && r->rank != self->id) fail(op, "accesses the %s: only windows are shared", r->name.c_str());
    return *r;
}

// Lines of windows are either counters or data.
void note_data(const Op &op, const Region &r, uint64_t from, uint64_t to) {
    if (!r.window) return;
    const auto owner = static_cast<size_t>(r.rank);
    const auto &counters = world->counters[owner];
    const auto it = counters.lower_bound(from / kLineBytes);
    if (it != counters.end() && it->first <= (to - 1) / kLineBytes) {
        fail(op, "data in %s bytes %llu..%llu shares a line with the counter at %llu (%s)", r.name.c_str(),
             Big(from), Big(to),
             Big(it->second.offset), where(it->second.first).c_str());
    }
    for (uint64_t l = from / kLineBytes; l <= (to - 1) / kLineBytes; ++l) world->data_lines[owner].insert(l);
}

Counter &counter_of(const Op &op, const void *slot, bool local) {
    Region *r = region_of(slot);
    if (r == nullptr || !r->window) fail(op, "the counter is in no window");
    const auto offset = static_cast<uint64_t>(static_cast<const uint8_t *>(slot) - r->bytes);
    if (offset % 4 != 0 || offset + 4 > r->size) fail(op, "counter at byte %llu is misaligned", Big(offset));
    if (local && r->rank != self->id) {
        fail(op, "waits on a counter of rank %d: only local counters can be waited for", r->rank);
    }
    const auto owner = static_cast<size_t>(r->rank);
    const uint64_t line = offset / kLineBytes;
    if (world->data_lines[owner].count(line) != 0) {
        fail(op, "the counter at byte %llu of %s shares a line with data", Big(offset), r->name.c_str());
    }
    auto [it, fresh] = world->counters[owner].try_emplace(line);
    Counter &c = it->second;
    if (fresh) {
        c.offset = offset;
        c.first = op;
    }
    if (c.offset != offset) {
        fail(op, "counters at bytes %llu and %llu of %s share a line", Big(c.offset),
             Big(offset), r->name.c_str());
    }
    return c;
}

const char *const kCmp[] = {"==", "!=", ">", ">=", "<", "<="};

bool holds(int32_t seen, int32_t value, int cmp) {
    switch (cmp) {
        case 0: return seen == value;
        case 1: return seen != value;
        case 2: return seen > value;
        case 3: return seen >= value;
        case 4: return seen < value;
        default: return seen <= value;
    }
}

int32_t seen_by(const Rank &r, uint64_t offset) {
    int32_t x;
    std::memcpy(&x, world->windows[static_cast<size_t>(r.id)]->bytes + offset, 4);
    return x;
}

}  // namespace

void fail(const Op &op, const char *f, ...) {
    va_list args;
    va_start(args, f);
    const std::string text = format(f, args);
    va_end(args);
    // What came before says which use of a counter is meant.
    const bool helper = op.name == std::string("TNOTIFY") || op.name == std::string("TWAIT");
    std::string use;
    if (helper && self->before.name != nullptr) {
        use = std::string(", after ") + self->before.name + " at line " + std::to_string(self->before.line);
    }
    stop(where(op) + use + ": " + text);
}

void fail_plain(const char *f, ...) {
    va_list args;
    va_start(args, f);
    const std::string text = format(f, args);
    va_end(args);
    stop("rank " + std::to_string(self->id) + " (call " + std::to_string(self->call) + "): " + text);
}

bool keep(int line) {
    at(line);
    return world->dropped.count(self->kernel * 1000000 + line) == 0;
}

void at(int line) {
    if (line > running().body_line) self->line = line;
}

Op begin(const char *name, int lane, int line) {
    const int shown = line < running().body_line && self->line != 0 ? self->line : line;
    Op op{name, shown, lane, self->id, self->core(), self->call, ++self->count(lane)};
    if (!has(lane)) fail(op, "a %s core has no pipe %s", running().cube ? "cube" : "vector", kLaneNames[lane]);
    self->before = self->last;
    self->last = op;
    if (lane == LaneV) ++self->executed[VectorOps];
    if (std::strcmp(name, "TLOAD") == 0) ++self->executed[Loads];
    if (std::strcmp(name, "TSTORE") == 0) ++self->executed[Stores];
    // The cube unit executes one product after another.
    if (lane == LaneM) complete(self->known[LaneM], self->agent_of(LaneM), op.time - 1);
    if (++world->instructions > kMostInstructions) {
        fail(op, "more than %llu instructions in one job", Big(kMostInstructions));
    }
    return op;
}

// --- unified buffer ---

namespace {
void ub_bounds(const Op &op, uint64_t at, uint64_t bytes) {
    const uint64_t space = at / kSpaceStep, from = at % kSpaceStep;
    if (space >= Spaces || from > kSpaceBytes[space] || bytes > kSpaceBytes[space] - from) {
        const char *name = space < Spaces ? kSpaceNames[space] : "no memory";
        fail(op, "%s bytes 0x%llx..0x%llx are beyond %s (%llu KiB)", name, Big(from), Big(from + bytes), name,
             Big(space < Spaces ? kSpaceBytes[space] / 1024 : 0));
    }
}
size_t ub_read_at(const Op &op, uint64_t at, uint64_t bytes, uint64_t &first) {
    ub_bounds(op, at, bytes);
    uint64_t gaps = 0;
    if (const Op *other = self->ub_shadow.read(op, known(op), at, at + bytes, gaps, first)) {
        race(op, *other, "reads", kSpaceNames[at / kSpaceStep], at % kSpaceStep, at % kSpaceStep + bytes);
    }
    return gaps;
}
}  // namespace

uint8_t *ub(uint64_t at) { return self->ub.data() + at; }
size_t ub_read(const Op &op, uint64_t at, uint64_t bytes) {
    uint64_t first = 0;
    return ub_read_at(op, at, bytes, first);
}
void ub_write(const Op &op, uint64_t at, uint64_t bytes) {
    ub_bounds(op, at, bytes);
    if (const Op *other = self->ub_shadow.write(op, known(op), at, at + bytes)) {
        race(op, *other, "writes", kSpaceNames[at / kSpaceStep], at % kSpaceStep, at % kSpaceStep + bytes);
    }
}
bool ub_defined(uint64_t at, uint64_t bytes) { return self->ub_shadow.defined(at, at + bytes); }
void ub_undefine(uint64_t at, uint64_t bytes) { self->ub_shadow.define(at, at + bytes, false); }

// --- global memory ---

void global_to_ub(const Op &op, const void *from, uint64_t at, uint64_t bytes) {
    uint64_t offset = 0, gaps = 0, first = 0;
    Region &r = locate(op, from, bytes, offset);
    note_data(op, r, offset, offset + bytes);
    if (const Op *other = r.shadow.read(op, known(op), offset, offset + bytes, gaps, first)) {
        race(op, *other, "reads", r.name, offset, offset + bytes);
    }
    if (gaps != 0) {
        fail(op, "uninitialised: reads %s bytes %llu..%llu, of which %llu was never written", r.name.c_str(),
             Big(offset), Big(offset + bytes),
             Big(first));
    }
    if (std::memcmp(from, r.expected.data() + offset, bytes) != 0) {
        fail(op, "reads a scalar store to %s that no dcci has written back", r.name.c_str());
    }
    ub_write(op, at, bytes);
    std::memcpy(ub(at), from, bytes);
    self->executed[BytesLoaded] += bytes;
}

void ub_to_global(const Op &op, uint64_t at, void *to, uint64_t bytes) {
    core_to_global(op, at, bytes, to, ub(at), bytes);
}

void core_to_global(const Op &op, uint64_t at, uint64_t read, void *to, const void *made, uint64_t bytes) {
    uint64_t offset = 0, first = 0;
    Region &r = locate(op, to, bytes, offset);
    bool input = !r.writable;
    for (const auto &[first_byte, end] : r.inputs) input = input || (first_byte < offset + bytes && offset < end);
    if (input) fail(op, "writes %s, which is an input", r.name.c_str());
    if (ub_read_at(op, at, read, first) != 0) {
        const uint64_t from = at % kSpaceStep;
        fail(op, "undefined: stores %s bytes 0x%llx..0x%llx, of which 0x%llx has no defined value",
             kSpaceNames[at / kSpaceStep], Big(from), Big(from + read), Big(first % kSpaceStep));
    }
    note_data(op, r, offset, offset + bytes);
    if (const Op *other = r.shadow.write(op, known(op), offset, offset + bytes)) {
        race(op, *other, "writes", r.name, offset, offset + bytes);
    }
    std::memcpy(to, made, bytes);
    self->executed[BytesStored] += bytes;
    std::memcpy(r.expected.data() + offset, made, bytes);
}

// --- synchronisation ---

void flag_set(int from, int to, int event, int line) {
    const Op op = begin("set_flag", LaneS, line);
    ++self->executed[FlagsSet];
    const int a = lane_of(op, from), b = lane_of(op, to);
    if (a == b) fail(op, "a flag from a pipe to itself");
    if (event < 0 || event > 7) fail(op, "event %d: a pipe pair has events 0..7", event);
    // Fires when all before it in its pipe is complete.
    Clock clock = self->known[a];
    complete(clock, self->agent_of(a), self->count(a));
    const auto [it, fresh] = self->flags.try_emplace((a * Lanes + b) * 8 + event, std::move(clock), line);
    if (!fresh) {
        fail(op, "flag %s to %s event %d is set already, at line %d", kLaneNames[a], kLaneNames[b], event,
             it->second.second);
    }
}

void flag_wait(int from, int to, int event, int line) {
    const Op op = begin("wait_flag", LaneS, line);
    ++self->executed[FlagsWaited];
    const int a = lane_of(op, from), b = lane_of(op, to);
    const auto it = self->flags.find((a * Lanes + b) * 8 + event);
    if (it == self->flags.end()) {
        fail(op, "flag %s to %s event %d is not set: the pipe waits for ever", kLaneNames[a], kLaneNames[b], event);
    }
    join(self->known[b], it->second.first);
    self->flags.erase(it);
}

void barrier(int pipe, int line) {
    const Op op = begin("pipe_barrier", LaneS, line);
    if (pipe != PIPE_ALL) {
        const int lane = lane_of(op, pipe);
        ++self->executed[BarriersOfLane + static_cast<size_t>(lane)];
        complete(self->known[lane], self->agent_of(lane), self->count(lane));
        return;
    }
    ++self->executed[BarriersAll];
    Clock all = self->pending;
    for (int l = 0; l < Lanes; ++l) {
        join(all, self->known[l]);
        complete(all, self->agent_of(l), self->count(l));
    }
    for (Clock &k : self->known) k = all;
    self->drained = all;
}

void drain_to_memory(int line) {
    begin("dsb", LaneS, line);
    ++self->executed[Dsbs];
    self->released = self->drained;
    self->dcci_line = 0;
}

void write_back(const volatile void *p, int line) {
    const Op op = begin("dcci", LaneS, line);
    const void *at = const_cast<const void *>(p);
    Region *r = region_of(at);
    if (r == nullptr) fail(op, "the address is in no tensor and in no window");
    if (r->rank != self->id) fail(op, "writes back a line of %s", r->name.c_str());
    if (!r->writable) fail(op, "writes back a line of %s, which is an input", r->name.c_str());
    const auto offset = static_cast<uint64_t>(static_cast<const uint8_t *>(at) - r->bytes) / kLineBytes * kLineBytes;
    for (uint64_t i = offset; i < std::min(offset + kLineBytes, r->size); ++i) {
        if (r->bytes[i] == r->expected[i]) continue;
        r->expected[i] = r->bytes[i];
        if (const Op *other = r->shadow.write(op, known(op), i, i + 1)) {
            race(op, *other, "scalar store to", r->name, i, i + 1);
        }
    }
    self->dcci_line = line;
}

void notify(const void *slot, int32_t value, bool add, int line) {
    const Op op = begin("TNOTIFY", LaneS, line);
    ++self->executed[Notifies];
    if (!add) fail(op, "NotifyOp::Set writes a whole line: counters are add-only");
    if (value != 1) fail(op, "adds %d: a counter counts events, one by one", value);
    Counter &c = counter_of(op, slot, false);
    if (c.writer >= 0 && c.writer != self->worker) {
        fail(op, "two writers of one counter: byte %llu belongs to rank %d (%s)", Big(c.offset),
             world->workers[static_cast<size_t>(c.writer)]->id, where(c.first).c_str());
    }
    if (c.writer < 0) {
        c.writer = self->worker;
        c.first = op;
    }
    c.adds.push_back(self->released);
    join_over(c.adds.back(), self->heard);
    Region *r = region_of(slot);
    const int32_t now = static_cast<int32_t>(c.adds.size());
    std::memcpy(r->bytes + c.offset, &now, 4);
    std::memcpy(r->expected.data() + c.offset, &now, 4);
    r->shadow.define(c.offset, c.offset + 4, true);
    for (int b = 0; b < most_blocks; ++b) {
        Rank &owner = world->block(*world->ranks[static_cast<size_t>(r->rank)], b);
        if (owner.status == Status::Waiting && owner.wait_offset == c.offset &&
            holds(now, owner.wait_value, owner.wait_cmp)) {
            owner.status = Status::Ready;
        }
    }
    if (world->order != 0 && world->random() % 2 == 0) world->yield_turn(*self, Status::Ready);
}

void await(const void *slot, int32_t value, int cmp, int line) {
    const Op op = begin("TWAIT", LaneS, line);
    ++self->executed[Waits];
    if (cmp != 0 && cmp != 2 && cmp != 3) fail(op, "TWAIT is modelled for EQ, GT and GE: a counter only grows");
    Counter &c = counter_of(op, slot, true);
    if (!holds(seen_by(*self, c.offset), value, cmp)) {
        self->wait_offset = c.offset;
        self->wait_value = value;
        self->wait_cmp = cmp;
        world->yield_turn(*self, Status::Waiting);
    }
    const int64_t needed = static_cast<int64_t>(value) + (cmp == 2 ? 1 : 0);
    if (needed <= 0) return;
    const Clock &told = c.adds[static_cast<size_t>(needed - 1)];
    join(self->pending, told);
    join_over(self->heard, told);
}

void defer(const void *slot, int32_t value, int line) {
    self->conditions.push_back({slot, value, line});
}

bool test(const void *slot, int32_t value, int cmp, int line) {
    const Op op = begin("TTEST", LaneS, line);
    const Counter &c = counter_of(op, slot, true);
    const bool yes = holds(seen_by(*self, c.offset), value, cmp);
    self->polls = yes ? 0 : self->polls + 1;
    if (self->polls > kMostPolls) fail(op, "polled in vain %d times: a rank that waits uses TWAIT", kMostPolls);
    return yes;
}

// --- ranks ---

Region::Region(std::string name_, int rank_, bool window_, uint64_t size_, uint8_t fill)
    : name(std::move(name_)), rank(rank_), window(window_), writable(true), size(size_),
      storage(new uint8_t[size_ + 2 * kGuard + kLineBytes]), expected(size_, fill) {
    const auto base = reinterpret_cast<uintptr_t>(storage.get()) + kGuard;
    bytes = storage.get() + kGuard + (kLineBytes - base % kLineBytes) % kLineBytes;
    std::fill_n(bytes, size_, fill);
}

// Memories of cores that no job uses. They are large, and a process runs many jobs: with new ones
// for each job, the system would spend more time on clearing pages than the job on running. What a
// job left in them is overwritten by begin_task.
static std::vector<std::vector<uint8_t>> spare_memories;

World::~World() {
    for (Rank *r : workers) spare_memories.push_back(std::move(r->ub));
}

World::World(int n, uint64_t window_bytes, bool defined) : window_defined(defined) {
    counters.resize(static_cast<size_t>(n));
    data_lines.resize(static_cast<size_t>(n));
    for (int i = 0; i < n; ++i) {
        const std::string name = "window of rank " + std::to_string(i);
        windows.push_back(std::make_unique<Region>(name, i, true, window_bytes, uint8_t{0}));
        if (defined) windows.back()->shadow = Shadow(true);
    }
    for (int w = 0; w < n * most_blocks; ++w) {
        auto r = std::make_unique<Rank>();
        r->id = w % n;
        r->block = w / n;
        r->worker = w;
        if (spare_memories.empty()) {
            r->ub.assign(Spaces * kSpaceStep, 0);
        } else {
            r->ub = std::move(spare_memories.back());
            spare_memories.pop_back();
        }
        const Clock none(2 * static_cast<size_t>(n * core_count()) * Lanes, 0);
        r->counts.resize(static_cast<size_t>(core_count()));
        for (Clock &k : r->known) k = none;
        r->pending = r->drained = r->released = r->heard = r->start = none;
        workers.push_back(r.get());
        // A block has nothing to do until a task has it.
        if (r->block > 0) r->status = Status::Done;
        (r->block == 0 ? ranks : blocks).push_back(std::move(r));
    }
    for (auto &r : ranks) {
        CommContext &c = r->context;
        c.rankId = static_cast<uint32_t>(r->id);
        c.rankNum = static_cast<uint32_t>(n);
        c.winSize = window_bytes;
        for (int i = 0; i < n; ++i) {
            c.windowsIn[i] = c.windowsOut[i] = reinterpret_cast<uint64_t>(windows[static_cast<size_t>(i)]->bytes);
        }
    }
}

uint64_t World::random() {
    order ^= order << 13;
    order ^= order >> 7;
    order ^= order << 17;
    return order;
}

void World::pass_on(int from) {
    const int n = static_cast<int>(workers.size());
    const int skip = order != 0 ? static_cast<int>(random() % static_cast<uint64_t>(n)) : 0;
    for (int i = 1; i <= n; ++i) {
        Rank &r = *workers[static_cast<size_t>((from + skip + i) % n)];
        if (r.status == Status::Ready) {
            turn = r.worker;
            r.wake.notify_one();
            return;
        }
    }
    std::string waiting;
    bool joining = false;
    for (Rank *r : workers) {
        joining = joining || r->status == Status::Joining;
        if (r->status != Status::Waiting) continue;
        char text[256];
        std::snprintf(text, sizeof text,
                      "; rank %d waits at kernel line %d (call %d, after %s at line %d) for counter at %llu %s %d, "
                      "which is %d",
                      r->id, r->last.line, r->call, r->before.name ? r->before.name : "nothing", r->before.line,
                      Big(r->wait_offset), kCmp[r->wait_cmp], r->wait_value, seen_by(*r, r->wait_offset));
        waiting += text;
    }
    if (!waiting.empty()) {
        if (failure.empty()) failure = "all waiting" + waiting;
        for (Rank *r : workers) r->wake.notify_all();
        return;
    }
    if (!joining) return;  // all done
    // Every rank is between two calls: the host orders them.
    Clock all(2 * agents(), 0);
    for (auto &r : ranks) {
        for (const Clock &k : r->known) join(all, k);
        join(all, r->drained);
    }
    int first = -1;
    for (auto &r : ranks) {
        for (Clock &k : r->known) k = all;
        r->drained = r->released = r->start = all;
        if (r->status == Status::Joining) {
            r->status = Status::Ready;
            if (first < 0) first = r->id;
        }
    }
    turn = first;
    ranks[static_cast<size_t>(first)]->wake.notify_one();
}

void World::yield_turn(Rank &rank, Status status) {
    std::unique_lock<std::mutex> held(lock, std::adopt_lock);
    rank.status = status;
    pass_on(rank.worker);
    rank.wake.wait(held, [&] { return !failure.empty() || turn == rank.worker; });
    held.release();
    if (!failure.empty()) throw Stop{};
}

void World::begin_task(Rank &rank) {
    rank.ub_shadow = Shadow();
    for (int s = 0; s < Spaces; ++s) {
        if ((s == SpaceUb) == kernels[rank.kernel]->cube) continue;
        std::fill_n(rank.ub.begin() + static_cast<std::ptrdiff_t>(space_base(s)), kSpaceBytes[s], uint8_t{0xCB});
    }
    rank.flags.clear();
    rank.line = 0;
}

void World::end_task(Rank &rank) {
    if (!rank.flags.empty()) {
        const auto &[id, flag] = *rank.flags.begin();
        fail_plain("flag %s to %s event %d, set at kernel line %d, is never waited for", kLaneNames[id / 8 / Lanes],
                   kLaneNames[id / 8 % Lanes], id % 8, flag.second);
    }
    for (int l = LaneS + 1; l < Lanes; ++l) {
        if (has(l) && rank.drained[static_cast<size_t>(rank.agent_of(l))] != rank.count(l)) {
            fail_plain("the kernel ends before %s is drained: no pipe_barrier(PIPE_ALL) at its end", kLaneNames[l]);
        }
    }
    if (rank.dcci_line != 0) fail_plain("no dsb(DSB_DDR) after the dcci at kernel line %d", rank.dcci_line);
    const auto scalar_stores = [&](const Region &r) {
        if (std::memcmp(r.bytes, r.expected.data(), r.size) == 0) return;
        const auto *at = std::mismatch(r.bytes, r.bytes + r.size, r.expected.begin()).first;
        fail_plain("a scalar store to %s byte %llu is not written back by dcci", r.name.c_str(), Big(at - r.bytes));
    };
    for (auto &t : tensors()) scalar_stores(*t);
    scalar_stores(*windows[static_cast<size_t>(rank.id)]);
}

void World::end_call(Rank &rank) {
    // The host waits for all tasks of a call.
    for (const Submitted &t : rank.tasks) join(rank.start, t.end);
    for (Clock &k : rank.known) k = rank.start;
    join(rank.drained, rank.start);
    rank.tasks.clear();
    if (join_calls) yield_turn(rank, Status::Joining);
}

void World::finish(Rank &rank) {
    rank.status = Status::Done;
    pass_on(rank.worker);
}

void World::finish_block(Rank &done) {
    Rank &rank = *ranks[static_cast<size_t>(done.id)];
    done.status = Status::Done;
    bool all = true;
    for (int b = 1; b < most_blocks; ++b) all = all && block(rank, b).status == Status::Done;
    if (all && rank.status == Status::Collecting) rank.status = Status::Ready;
    pass_on(done.worker);
}

}  // namespace standin
