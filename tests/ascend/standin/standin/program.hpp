// The programs that were compiled together; the unit that holds them defines the table (crates/audit/src/standin/unit.rs).
#pragma once
#include "pto_orchestration_api.h"
#include "standin/world.hpp"

namespace standin {

struct Program {
    const Kernel *const *kernels;
    int kernel_count;
    Orchestration orchestration;
};
extern const Program programs[];
extern const int program_count;

}  // namespace standin
