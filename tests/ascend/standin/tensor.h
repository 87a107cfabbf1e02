// The tensor descriptor of a kernel's argument: layout as on the device, contiguous tensors only.
#pragma once
#include <cstddef>
#include <cstdint>

#include "standin/model.hpp"

constexpr int MAX_TENSOR_DIMS = 5;

enum class DataType : uint8_t {
    FLOAT32, FLOAT16, INT32, INT16, INT8, UINT8, BFLOAT16, INT64, UINT64, UINT16, UINT32, BOOL,
};
inline uint64_t get_element_size(DataType t) {
    constexpr uint8_t bytes[] = {4, 2, 4, 2, 1, 1, 2, 8, 8, 2, 4, 1};
    return bytes[static_cast<int>(t)];
}
enum class AddressSpace : uint8_t { HOST = 0, DEVICE = 1 };
struct PTOBufferHandle {
    uint64_t addr;  // bytes
    uint64_t size;  // bytes
};
struct PTO2TaskId {
    uint64_t raw;
};

struct alignas(64) ChipTensor {
    PTOBufferHandle buffer;
    PTO2TaskId owner_task_id;
    uint64_t start_offset;  // elements
    int32_t version;
    uint32_t ndims;
    DataType dtype;
    bool manual_dep;
    bool is_contiguous;
    AddressSpace address_space;
    uint32_t shapes[MAX_TENSOR_DIMS];
    uint64_t extent_elem_cache;
    uint32_t strides[MAX_TENSOR_DIMS];  // elements
    uint8_t reserved[36];

    uint64_t numel() const {
        uint64_t n = 1;
        for (uint32_t i = 0; i < ndims; ++i) n *= shapes[i];
        return n;
    }
    uint64_t nbytes() const { return numel() * get_element_size(dtype); }
    // A part of a tensor of one dimension.
    ChipTensor view(const uint32_t shape[], const uint32_t offset[]) const {
        if (ndims != 1 || uint64_t{offset[0]} + shape[0] > shapes[0]) {
            standin::fail_plain("a view of elements %u..%llu of a tensor of %u", offset[0],
                                standin::Big(uint64_t{offset[0]} + shape[0]), ndims == 1 ? shapes[0] : 0);
        }
        ChipTensor out = *this;
        out.start_offset += offset[0];
        out.shapes[0] = shape[0];
        out.extent_elem_cache = shape[0];
        return out;
    }
};
static_assert(sizeof(ChipTensor) == 128 && offsetof(ChipTensor, start_offset) == 24 && offsetof(ChipTensor, dtype) == 40 &&
              offsetof(ChipTensor, shapes) == 44 && offsetof(ChipTensor, strides) == 72);
