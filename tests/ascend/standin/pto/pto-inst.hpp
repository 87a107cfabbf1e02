// Stand-in for the tile instruction library: same names and parameter orders, our own text. What is not here does not
// compile, on purpose. The rules of the model: standin/model.cpp.
#pragma once
#define __gm__
#define __aicore__
#define AICORE
// The entry is always_inline without inline, as the device's compiler wants it.
#pragma GCC diagnostic ignored "-Wattributes"

#include "standin/convert_ops.hpp"
#include "standin/cube_ops.hpp"
#include "standin/memory_ops.hpp"
#include "standin/model.hpp"
#include "standin/row_ops.hpp"
#include "standin/select_ops.hpp"
#include "standin/sync_ops.hpp"
#include "standin/tile.hpp"
#include "standin/types.hpp"
#include "standin/vector_ops.hpp"
