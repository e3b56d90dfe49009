// Before any tensor exists: memory is counted, and libtorch computes on one thread as ranks do.
#include <ATen/Parallel.h>
#include <c10/core/InferenceMode.h>
#include <gtest/gtest.h>

#include "slimpack/packflow/device/memory_tracker.h"

int main(int argc, char** argv) {
  slimpack::install_memory_tracker();
  at::set_num_threads(1);
  const c10::InferenceMode as_the_ranks;
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
