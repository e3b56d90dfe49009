#include "slimpack/packflow/sparse/parallel_tasks.h"

#include <ATen/Parallel.h>
#include <ATen/ThreadLocalState.h>

#include <algorithm>
#include <atomic>

#ifndef INTRA_OP_PARALLEL
#error "compile this file with OpenMP: without it at::parallel_for is a plain loop"
#endif

namespace slimpack {

void for_each_task(std::int64_t count, const std::function<void(std::int64_t)>& work) {
  std::atomic<std::int64_t> next{0};
  const at::ThreadLocalState modes;  // the caller's, such as inference without autograd
  const auto take = [&](std::int64_t, std::int64_t) {
    const at::ThreadLocalStateGuard same_modes(modes);
    for (std::int64_t i = next++; i < count; i = next++) work(i);
  };
  at::parallel_for(0, std::min<std::int64_t>(count, at::get_num_threads()), 1, take);
}

}  // namespace slimpack
