// Orchestration of @KERNEL@: hands the arguments of a launch to one AIV task. Written by kbc; do not edit.
#include <stdint.h>

#include "pto_orchestration_api.h"

#define EXPORTED extern "C" __attribute__((visibility("default")))

EXPORTED PTO2OrchestrationConfig @KERNEL@_config(const ChipTaskArgs &) {
    return PTO2OrchestrationConfig{
        .expected_arg_count = @TENSORS@ + @SCALARS@,  // tensors and scalars
    };
}

EXPORTED void @KERNEL@_orchestration(const ChipTaskArgs &args) {
    CoreTaskArgs task;
@ADDS@    rt_submit_aiv_task(0, task);
}
