// A task's arguments with tasks that it is told to wait for.
#pragma once
#include "pto_orchestration_api.h"

template <int Most = 16>
class CoreTaskArgsWithDeps : public CoreTaskArgs {
public:
    template <typename... Ids>
    void add_dep(Ids... ids) {
        (after_.push_back(ids), ...);
        if (after_.size() > Most) standin::fail_plain("a task waits for more than %d others", Most);
    }
    const std::vector<PTO2TaskId> &after() const { return after_; }

private:
    std::vector<PTO2TaskId> after_;
};

template <int Most>
TaskOutputTensors rt_submit_aiv_task(int32_t kernel, const CoreTaskArgsWithDeps<Most> &args) {
    return TaskOutputTensors(PTO2TaskId{standin::submit(kernel, args, false, args.after())});
}
template <int Most>
TaskOutputTensors rt_submit_aic_task(int32_t kernel, const CoreTaskArgsWithDeps<Most> &args) {
    return TaskOutputTensors(PTO2TaskId{standin::submit(kernel, args, true, args.after())});
}
