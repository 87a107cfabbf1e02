// Submits all_reduce.cpp once.
#include <stdint.h>
#include "pto_orchestration_api.h"

extern "C" {

__attribute__((visibility("default"))) PTO2OrchestrationConfig reduce_config(const ChipTaskArgs &args) {
    (void)args;
    return PTO2OrchestrationConfig{.expected_arg_count = 8};
}

__attribute__((visibility("default"))) void reduce_submit(const ChipTaskArgs &args) {
    CoreTaskArgs task;
    task.add_input(args.tensor(0).ref());
    task.add_output(args.tensor(1).ref());
    task.add_inout(args.tensor(2).ref());
    task.add_output(args.tensor(3).ref());
    for (int i = 0; i < 4; ++i) task.add_scalar(args.scalar(i));
    rt_submit_aiv_task(0, task);
}

}
