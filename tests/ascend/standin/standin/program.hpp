// The programs that were compiled together; the unit that holds them defines the table
// (crates/audit/src/standin/unit.rs). It is compiled for every program, so it does not include the
// model's own headers, which take longer than the rest of it.
#pragma once
#include "pto_orchestration_api.h"
#include "standin/model.hpp"

namespace standin {

struct Program {
    const Kernel *const *kernels;
    int kernel_count;
    Orchestration orchestration;
};
extern const Program programs[];
extern const int program_count;

}  // namespace standin
