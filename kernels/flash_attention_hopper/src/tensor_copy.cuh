// Copies of whole tiles by the tensor memory accelerator (TMA).
//
// A tensor (batch, seq_len, heads, d) is described as five dimensions: 64 elements, rows, panels of
// 64 elements, heads, batch. So that one copy brings all panels of a tile, each of them swizzled.
// Rows beyond seq_len are zeros when they are loaded, and are not stored.
#pragma once

#include <cuda.h>

#include "barrier.cuh"

namespace flash_attention_hopper {

__device__ __forceinline__ void prefetch_map(const CUtensorMap& map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory");
}

__device__ __forceinline__ void load_tile(uint32_t shared, const CUtensorMap& map, int row,
                                          int head, int batch, uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.tensor.5d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
      "[%0], [%1, {%2, %3, %4, %5, %6}], [%7];" ::"r"(shared),
      "l"(&map), "r"(0), "r"(row), "r"(0), "r"(head), "r"(batch), "r"(barrier)
      : "memory");
}

__device__ __forceinline__ void store_tile(const CUtensorMap& map, uint32_t shared, int row,
                                           int head, int batch) {
  asm volatile(
      "cp.async.bulk.tensor.5d.global.shared::cta.tile.bulk_group "
      "[%0, {%1, %2, %3, %4, %5}], [%6];" ::"l"(&map),
      "r"(0), "r"(row), "r"(0), "r"(head), "r"(batch), "r"(shared)
      : "memory");
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

// Waits until this thread's stores have read shared memory.
__device__ __forceinline__ void stores_read() {
  asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
}

// Makes this thread's writes to shared memory visible to TMA.
__device__ __forceinline__ void publish_to_tma() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

}  // namespace flash_attention_hopper
