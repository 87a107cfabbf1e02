// Runs jobs: JOBS (text) INPUT (raw bytes) OUTPUT (raw bytes). One line to stdout a job: its name, a tab, `ok` or the
// failure. Exit code 0 if every job could be run, whatever came of it.
//
//   job NAME
//   program N / ranks N / blocks N / calls N / window BYTES / order SEED / drop LINE... / allow zeroed / join calls /
//   count instructions
//   tensor in|out|inout TYPE COUNT[,COUNT per rank]      input bytes: by call, then rank, then tensor
//   tensor window
//   scalar VALUE[,VALUE per rank] | scalar call BASE | scalar context
//   end
// Arguments in the order of the lines, tensors first. Output bytes of a job that is ok: by call, rank, tensor (out and
// inout); with `count`, behind the tensors of each rank the numbers of `Executed`, as uint64, over all of its blocks.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iostream>
#include <sstream>
#include <thread>

#include "intrinsic.h"
#include "pto_orchestration_api.h"
#include "standin/program.hpp"
#include "standin/world.hpp"

namespace standin {

// Of the program that runs: jobs run one after another.
const Kernel *const *kernels = nullptr;
int kernel_count = 0;

namespace {

Orchestration orchestration{nullptr, nullptr};

struct TensorArg {
    enum Kind { In, Out, Inout, Window } kind;
    DataType type;
    std::vector<uint64_t> counts;
};
struct ScalarArg {
    enum Kind { Value, Call, Context } kind;
    std::vector<int64_t> values;
};
struct Job {
    std::string name;
    int program = 0, ranks = 1, calls = 1, blocks = 1;
    uint64_t window = 0, order = 0;
    bool zeroed = false, join = false, count = false;
    std::set<int> drop;
    std::vector<TensorArg> tensors;
    std::vector<ScalarArg> scalars;
};

const std::pair<const char *, DataType> kTypes[] = {
    {"f32", DataType::FLOAT32}, {"f16", DataType::FLOAT16}, {"bf16", DataType::BFLOAT16}, {"i32", DataType::INT32},
    {"i16", DataType::INT16},   {"i8", DataType::INT8},     {"u8", DataType::UINT8},      {"i64", DataType::INT64},
    {"u16", DataType::UINT16},  {"u32", DataType::UINT32},  {"u64", DataType::UINT64},
};

template <typename T>
std::vector<T> numbers(const std::string &text) {
    std::vector<T> out;
    std::stringstream in(text);
    for (std::string one; std::getline(in, one, ',');) out.push_back(static_cast<T>(std::stoll(one)));
    if (out.empty()) throw std::runtime_error("a number is missing");
    return out;
}
template <typename T>
T of_rank(const std::vector<T> &values, int rank) {
    return values.size() == 1 ? values[0] : values.at(static_cast<size_t>(rank));
}

std::vector<Job> read_jobs(std::istream &in) {
    std::vector<Job> jobs;
    std::string line, word, rest;
    while (std::getline(in, line)) {
        std::istringstream words(line);
        if (!(words >> word)) continue;
        if (word == "job") {
            jobs.emplace_back();
            words >> jobs.back().name;
            continue;
        }
        if (jobs.empty()) throw std::runtime_error("the first line is no job");
        Job &job = jobs.back();
        if (word == "end") continue;
        if (word == "program") words >> job.program;
        else if (word == "ranks") words >> job.ranks;
        else if (word == "blocks") words >> job.blocks;
        else if (word == "calls") words >> job.calls;
        else if (word == "window") words >> job.window;
        else if (word == "order") words >> job.order;
        else if (word == "allow") job.zeroed = true;
        else if (word == "join") job.join = true;
        else if (word == "count") job.count = true;
        else if (word == "drop") {
            for (int n; words >> n;) job.drop.insert(n);
        } else if (word == "tensor") {
            if (!job.scalars.empty()) throw std::runtime_error("a tensor after a scalar");
            std::string kind, type;
            words >> kind;
            if (kind == "window") {
                job.tensors.push_back({TensorArg::Window, DataType::UINT8, {}});
                continue;
            }
            words >> type >> rest;
            const auto kind_of = kind == "in" ? TensorArg::In : kind == "out" ? TensorArg::Out : TensorArg::Inout;
            const auto named = [&](const auto &k) { return type == k.first; };
            const auto *t = std::find_if(std::begin(kTypes), std::end(kTypes), named);
            if (t == std::end(kTypes)) throw std::runtime_error("element type " + type);
            job.tensors.push_back({kind_of, t->second, numbers<uint64_t>(rest)});
        } else if (word == "scalar") {
            words >> word;
            if (word == "context") job.scalars.push_back({ScalarArg::Context, {}});
            else if (word == "call") job.scalars.push_back({ScalarArg::Call, {words >> rest ? std::stoll(rest) : 0}});
            else job.scalars.push_back({ScalarArg::Value, numbers<int64_t>(word)});
        } else {
            throw std::runtime_error("unknown word " + word);
        }
    }
    return jobs;
}

constexpr uint8_t kPoison = 0xCB;
constexpr int kMostCores = 48;

// Arguments of one call of one rank.
struct Call {
    std::vector<ChipTensor> tensors;
    ChipTaskArgs chip;
};

// The tensors of a call: outputs undefined, a line of other bytes before the data.
void make_tensors(const Job &job, Rank &rank, World &w, const std::vector<uint8_t> &input, uint64_t at, Call &call) {
    rank.tensors.clear();
    call.tensors.reserve(job.tensors.size());
    for (size_t i = 0; i < job.tensors.size(); ++i) {
        const TensorArg &arg = job.tensors[i];
        ChipTensor t{};
        t.dtype = arg.type;
        t.ndims = 1;
        t.is_contiguous = true;
        t.strides[0] = 1;
        if (arg.kind == TensorArg::Window) {
            Region &win = *w.windows[static_cast<size_t>(rank.id)];
            t.buffer = {reinterpret_cast<uint64_t>(win.bytes), win.size};
            t.shapes[0] = static_cast<uint32_t>(win.size);
        } else {
            const uint64_t item = get_element_size(arg.type), count = of_rank(arg.counts, rank.id);
            const uint64_t bytes = item * count;
            const std::string name = "tensor " + std::to_string(i) + " of rank " + std::to_string(rank.id);
            auto region = std::make_unique<Region>(name, rank.id, false, bytes, kPoison);
            if (arg.kind != TensorArg::Out) {
                std::memcpy(region->bytes, input.data() + at, bytes);
                std::memcpy(region->expected.data(), input.data() + at, bytes);
                region->shadow = Shadow(true);
                at += bytes;
            }
            region->writable = arg.kind != TensorArg::In;
            // The view starts a line into its buffer: a kernel that forgets start_offset is out of bounds.
            t.buffer = {reinterpret_cast<uint64_t>(region->bytes) - kLineBytes, bytes + kLineBytes};
            t.start_offset = kLineBytes / item;
            t.shapes[0] = static_cast<uint32_t>(count);
            rank.tensors.push_back(std::move(region));
        }
        t.extent_elem_cache = t.shapes[0];
        call.tensors.push_back(t);
    }
}

uint64_t input_bytes(const Job &job, int rank) {
    uint64_t n = 0;
    for (const TensorArg &t : job.tensors) {
        if (t.kind != TensorArg::In && t.kind != TensorArg::Inout) continue;
        n += get_element_size(t.type) * of_rank(t.counts, rank);
    }
    return n;
}

void run_rank(const Job &job, World &w, Rank &rank, const std::vector<uint8_t> &input, uint64_t at,
              std::vector<std::vector<uint8_t>> &output) {
    uint64_t all = 0, mine = 0;
    for (int r = 0; r < job.ranks; ++r) {
        if (r == rank.id) mine = all;
        all += input_bytes(job, r);
    }
    for (int c = 0; c < job.calls; ++c) {
        rank.call = c;
        Call call;
        make_tensors(job, rank, w, input, at + static_cast<uint64_t>(c) * all + mine, call);
        for (const ChipTensor &t : call.tensors) call.chip.add_inout(t);
        for (const ScalarArg &s : job.scalars) {
            switch (s.kind) {
                case ScalarArg::Value: call.chip.add_scalar(of_rank(s.values, rank.id)); break;
                case ScalarArg::Call: call.chip.add_scalar(s.values[0] + c); break;
                case ScalarArg::Context: call.chip.add_scalar(reinterpret_cast<uint64_t>(&rank.context)); break;
            }
        }
        if (orchestration.run != nullptr) {
            const int expected = orchestration.config(call.chip).expected_arg_count;
            const int given = call.chip.tensor_count() + call.chip.scalar_count();
            if (expected != given) {
                fail_plain("the orchestration expects %d arguments, the host gives %d", expected, given);
            }
            orchestration.run(call.chip);
        } else {
            CoreTaskArgs task;
            task.launch_spec.set_block_num(job.blocks);
            task.launch_spec.set_require_sync_start(true);
            for (const ChipTensor &t : call.tensors) task.add_inout(t);
            for (int i = 0; i < call.chip.scalar_count(); ++i) task.add_scalar(call.chip.scalar(i));
            submit(0, task, kernels[0]->cube, {});
        }
        w.end_call(rank);
        size_t next = 0;
        for (const TensorArg &t : job.tensors) {
            if (t.kind == TensorArg::Window) continue;
            const Region &r = *rank.tensors[next++];
            if (t.kind == TensorArg::In) continue;
            auto &out = output[static_cast<size_t>(c * job.ranks + rank.id)];
            out.insert(out.end(), r.bytes, r.bytes + r.size);
        }
        std::array<uint64_t, ExecutedCounts> executed{};
        for (int b = 0; b < most_blocks; ++b) {
            auto &mine = w.block(rank, b).executed;
            for (size_t i = 0; i < executed.size(); ++i) executed[i] += mine[i];
            mine.fill(0);
        }
        if (job.count) {
            auto &out = output[static_cast<size_t>(c * job.ranks + rank.id)];
            const auto *bytes = reinterpret_cast<const uint8_t *>(executed.data());
            out.insert(out.end(), bytes, bytes + sizeof executed);
        }
    }
}

std::string run(const Job &job, const std::vector<uint8_t> &input, uint64_t at, std::ostream &out) {
    if (job.window % kLineBytes != 0) return "the window size is not a multiple of 64";
    if (job.ranks < 1 || job.ranks > static_cast<int>(COMM_MAX_RANK_NUM)) return "the number of ranks is not 1..64";
    if (job.program < 0 || job.program >= program_count) return "there is no such program";
    kernels = programs[job.program].kernels;
    kernel_count = programs[job.program].kernel_count;
    orchestration = programs[job.program].orchestration;
    if (job.blocks < 1 || job.blocks > kMostCores) return "the number of blocks is not that of cores of a die";
    most_blocks = job.blocks;
    World w(job.ranks, job.window, job.zeroed);
    w.dropped = job.drop;
    w.join_calls = job.join;
    w.order = job.order;
    std::vector<std::vector<uint8_t>> output(static_cast<size_t>(job.calls * job.ranks));
    std::vector<std::thread> threads;
    for (int r = 0; r < job.ranks; ++r) {
        threads.emplace_back([&, r] {
            Rank &rank = *w.ranks[static_cast<size_t>(r)];
            world = &w;
            self = &rank;
            std::unique_lock<std::mutex> held(w.lock);
            rank.wake.wait(held, [&] { return !w.failure.empty() || w.turn == r; });
            if (!w.failure.empty()) return;
            try {
                run_rank(job, w, rank, input, at, output);
                w.finish(rank);
            } catch (const Stop &) {
            }
        });
    }
    for (auto &t : threads) t.join();
    if (!w.failure.empty()) return w.failure;
    for (const auto &bytes : output) {
        out.write(reinterpret_cast<const char *>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    }
    return "ok";
}

}  // namespace

namespace {

// The calling worker's block of a task.
void run_block(const int64_t (&given)[50], int blocks, const Clock &known) {
    int64_t args[50];
    std::copy(std::begin(given), std::end(given), args);
    LocalContext local{self->block, blocks};
    GlobalContext global{0};
    args[48] = reinterpret_cast<int64_t>(&local);
    args[49] = reinterpret_cast<int64_t>(&global);
    for (Clock &k : self->known) k = known;
    self->pending = self->drained = self->released = known;
    world->begin_task(*self);
    kernels[self->kernel]->entry(args);
    world->end_task(*self);
}

// The blocks of a task beside the first, a thread each.
class Blocks {
public:
    explicit Blocks(int blocks) : blocks_(blocks) {}
    Blocks(const Blocks &) = delete;
    Blocks &operator=(const Blocks &) = delete;
    ~Blocks() {
        if (threads_.empty()) return;
        // After a failure they have to wake up for their end.
        world->lock.unlock();
        for (auto &t : threads_) t.join();
        world->lock.lock();
    }
    void start(Rank &block, const int64_t (&args)[50], const Clock &known) {
        block.kernel = self->kernel;
        block.call = self->call;
        block.heard = self->heard;
        block.status = Status::Ready;
        threads_.emplace_back([this, w = world, &block, &args, &known] {
            world = w;
            self = &block;
            std::unique_lock<std::mutex> held(w->lock);
            block.wake.wait(held, [&] { return !w->failure.empty() || w->turn == block.worker; });
            if (!w->failure.empty()) return;
            try {
                run_block(args, blocks_, known);
                w->finish_block(block);
            } catch (const Stop &) {
            }
        });
    }
    // Until all of them are done.
    void collect() {
        for (int b = 1; b < blocks_; ++b) {
            if (world->block(*self, b).status == Status::Done) continue;
            world->yield_turn(*self, Status::Collecting);
            return;
        }
    }

private:
    int blocks_;
    std::vector<std::thread> threads_;
};

}  // namespace

uint64_t submit(int32_t kernel, const CoreTaskArgs &task, bool cube, const std::vector<PTO2TaskId> &after) {
    if (kernel < 0 || kernel >= kernel_count) {
        fail_plain("kernel %d is not registered: there are %d, from 0 on", kernel, kernel_count);
    }
    if (kernels[kernel]->cube != cube) {
        fail_plain("kernel %d is for a %s core and submitted to another", kernel, cube ? "vector" : "cube");
    }
    self->kernel = kernel;
    Submitted now;
    now.kernel = kernel;
    // What it is ordered after: what the call is, the tasks it takes something from, and those it was told.
    Clock known = self->start;
    for (const PTO2TaskId &id : after) {
        if (id.raw >= self->tasks.size()) fail_plain("task %llu has not been submitted", Big(id.raw));
        join(known, self->tasks[id.raw].end);
    }
    const int blocks = task.launch_spec.blocks;
    if (blocks < 1 || blocks > most_blocks) fail_plain("a task of %d blocks, the job has %d", blocks, most_blocks);
    // Blocks for cube cores start when a core is free, perhaps after others have ended.
    const bool together = task.launch_spec.together;
    if (blocks > 1 && !together && !cube) {
        fail_plain("%d blocks that are not started together: set_require_sync_start(true)", blocks);
    }
    int64_t args[50] = {};
    int next = 0;
    std::vector<ChipTensor> tensors;
    tensors.reserve(static_cast<size_t>(task.tensor_count()));
    for (int i = 0; i < task.tensor_count(); ++i) {
        tensors.push_back(task.tensor(i).ref());
        args[next++] = reinterpret_cast<int64_t>(&tensors.back());
        const ChipTensor &t = tensors.back();
        const uint64_t item = get_element_size(t.dtype);
        const uint64_t from = t.buffer.addr + t.start_offset * item, to = from + t.numel() * item;
        const Direction direction = task.tensor(i).direction;
        if (direction == Direction::Input || direction == Direction::Inout) {
            for (const Submitted &earlier : self->tasks) {
                for (const auto &w : earlier.wrote) {
                    if (w.from < to && from < w.to) join(known, earlier.end);
                }
            }
        }
        if (direction == Direction::Output || direction == Direction::Inout) now.wrote.push_back({from, to});
        // What is submitted as an input must not be written.
        if (task.tensor(i).direction != Direction::Input) continue;
        for (auto &r : self->tensors) {
            if (r->holds(reinterpret_cast<uint8_t *>(tensors.back().buffer.addr) + kLineBytes)) {
                const auto base = reinterpret_cast<uint64_t>(r->bytes);
                r->inputs.push_back({from - base, to - base});
            }
        }
    }
    for (int i = 0; i < task.scalar_count(); ++i) args[next++] = static_cast<int64_t>(task.scalar(i));
    Blocks others(blocks);
    for (int b = 1; b < blocks && together; ++b) others.start(world->block(*self, b), args, known);
    run_block(args, blocks, known);
    for (int b = 1; b < blocks && !together; ++b) {
        others.start(world->block(*self, b), args, known);
        others.collect();
    }
    if (blocks > 1) others.collect();
    for (auto &r : self->tensors) r->inputs.clear();
    now.end = self->drained;
    for (int b = 1; b < blocks; ++b) {
        join(now.end, world->block(*self, b).drained);
        join_over(self->heard, world->block(*self, b).heard);
    }
    // The conditions of all blocks: the task ends once they hold, and its core does not wait.
    std::vector<Rank::Condition> conditions = std::move(self->conditions);
    self->conditions.clear();
    for (int b = 1; b < blocks; ++b) {
        auto &more = world->block(*self, b).conditions;
        conditions.insert(conditions.end(), more.begin(), more.end());
        more.clear();
    }
    if (conditions.size() > kMostConditions) fail_plain("%zu conditions of a task, at most 64", conditions.size());
    for (const auto &c : conditions) await(c.slot, c.value, 3, c.line);
    if (!conditions.empty()) join(now.end, self->pending);
    self->tasks.push_back(std::move(now));
    return self->tasks.size() - 1;
}

}  // namespace standin

int main(int argc, char **argv) {
    alarm(300);  // seconds: a kernel that never ends must not hold up tests
    if (argc != 4) {
        std::fprintf(stderr, "usage: %s JOBS INPUT OUTPUT\n", argv[0]);
        return 2;
    }
    try {
        std::ifstream jobs_in(argv[1]), data(argv[2], std::ios::binary);
        std::ofstream out(argv[3], std::ios::binary);
        if (!jobs_in || !data || !out) throw std::runtime_error("a file cannot be opened");
        const auto jobs = standin::read_jobs(jobs_in);
        const std::vector<uint8_t> input((std::istreambuf_iterator<char>(data)), {});
        uint64_t at = 0;
        for (const auto &job : jobs) {
            uint64_t needs = 0;
            for (int r = 0; r < job.ranks; ++r) needs += standin::input_bytes(job, r);
            needs *= static_cast<uint64_t>(job.calls);
            if (at + needs > input.size()) throw std::runtime_error("job " + job.name + ": input is too short");
            std::cout << job.name << '\t' << standin::run(job, input, at, out) << std::endl;
            at += needs;
        }
        if (at != input.size()) throw std::runtime_error("input is too long");
        out.flush();
        return out ? 0 : 2;
    } catch (const std::exception &e) {
        std::fprintf(stderr, "%s\n", e.what());
        return 2;
    }
}
