// What an orchestration function is written against: its arguments, a task's arguments, submission. Submitting runs the
// kernel at once; what it is ordered after is the model's business (standin/model.cpp).
#pragma once
#include <cstdint>
#include <type_traits>
#include <vector>

#include "standin/model.hpp"
#include "tensor.h"

struct PTO2OrchestrationConfig {
    int expected_arg_count;
};

constexpr int MAX_TENSOR_ARGS = 32, MAX_SCALAR_ARGS = 16;
constexpr int CHIP_MAX_TENSOR_ARGS = 256, CHIP_MAX_SCALAR_ARGS = 128;

namespace standin {
enum class Direction { Input, Output, Inout, NoDep };
struct TaskTensor {
    const ChipTensor *tensor;
    Direction direction;
    const ChipTensor &ref() const { return *tensor; }
};
}  // namespace standin

// Blocks of a task: a core each.
struct LaunchSpec {
#ifdef STANDIN_A5
    // The name in tensormap_and_ringbuffer of a5.
    void set_core_num(int32_t n) { blocks = n; }
#else
    void set_block_num(int32_t n) { blocks = n; }
#endif
    void set_require_sync_start(bool on) { together = on; }
    int32_t blocks = 1;
    bool together = false;
};

// Tensors first, then scalars, each up to its limit.
template <int MaxTensors, int MaxScalars>
struct Arg {
    template <typename... T>
    void add_input(const T &...t) { (tensor_in(t, standin::Direction::Input), ...); }
    template <typename... T>
    void add_output(const T &...t) { (tensor_in(t, standin::Direction::Output), ...); }
    template <typename... T>
    void add_inout(const T &...t) { (tensor_in(t, standin::Direction::Inout), ...); }
    template <typename... T>
    void add_no_dep(const T &...t) { (tensor_in(t, standin::Direction::NoDep), ...); }
    template <typename... S>
    void add_scalar(S... s) { (scalar_in(s), ...); }
    LaunchSpec launch_spec;

    int32_t tensor_count() const { return static_cast<int32_t>(tensors_.size()); }
    int32_t scalar_count() const { return static_cast<int32_t>(scalars_.size()); }
    const standin::TaskTensor &tensor(int32_t i) const {
        if (i < 0 || i >= tensor_count()) standin::fail_plain("orchestration asks for tensor %d of %d", i, tensor_count());
        return tensors_[static_cast<size_t>(i)];
    }
    uint64_t scalar(int32_t i) const {
        if (i < 0 || i >= scalar_count()) standin::fail_plain("orchestration asks for scalar %d of %d", i, scalar_count());
        return scalars_[static_cast<size_t>(i)];
    }

private:
    void tensor_in(const ChipTensor &t, standin::Direction direction) {
        if (!scalars_.empty()) standin::fail_plain("a tensor is added after a scalar");
        if (tensor_count() == MaxTensors) standin::fail_plain("more than %d tensors", MaxTensors);
        tensors_.push_back({&t, direction});
    }
    template <typename S>
    void scalar_in(S s) {
        static_assert(std::is_arithmetic_v<S> || std::is_enum_v<S>, "a scalar is a number");
        if (scalar_count() == MaxScalars) standin::fail_plain("more than %d scalars", MaxScalars);
        uint64_t raw = 0;  // the bits of the value: a narrow negative number is not extended
        __builtin_memcpy(&raw, &s, sizeof s);
        scalars_.push_back(raw);
    }
    std::vector<standin::TaskTensor> tensors_;
    std::vector<uint64_t> scalars_;
};
using CoreTaskArgs = Arg<MAX_TENSOR_ARGS, MAX_SCALAR_ARGS>;
class TaskOutputTensors {
public:
    explicit TaskOutputTensors(PTO2TaskId id) : id_(id) {}
    PTO2TaskId task_id() const { return id_; }

private:
    PTO2TaskId id_;
};
struct ChipTaskArgs : Arg<CHIP_MAX_TENSOR_ARGS, CHIP_MAX_SCALAR_ARGS> {};

namespace standin {
// Runs the kernel with a task's arguments on the calling rank, on a core of that kind; the task's number in the call.
uint64_t submit(int32_t kernel, const CoreTaskArgs &args, bool cube, const std::vector<PTO2TaskId> &after);

// The orchestration of a program, none if both are null.
struct Orchestration {
    PTO2OrchestrationConfig (*config)(const ChipTaskArgs &);
    void (*run)(const ChipTaskArgs &);
};
}  // namespace standin

inline TaskOutputTensors rt_submit_aiv_task(int32_t kernel, const CoreTaskArgs &args) {
    return TaskOutputTensors(PTO2TaskId{standin::submit(kernel, args, false, {})});
}
inline TaskOutputTensors rt_submit_aic_task(int32_t kernel, const CoreTaskArgs &args) {
    return TaskOutputTensors(PTO2TaskId{standin::submit(kernel, args, true, {})});
}
