// Orchestration of @KERNEL@: hands the arguments of a launch to @WHAT@. Written by kbc; do not edit.
#include <stdint.h>

#include "pto_orchestration_api.h"
@INCLUDE@
@BEFORE@#define EXPORTED extern "C" __attribute__((visibility("default")))

EXPORTED PTO2OrchestrationConfig @KERNEL@_config(const ChipTaskArgs &) {
    return PTO2OrchestrationConfig{
        .expected_arg_count = @TENSORS@ + @SCALARS@,  // tensors and scalars
    };
}

EXPORTED void @KERNEL@_orchestration(const ChipTaskArgs &args) {
@BODY@}
