// Runs a file's steps with ranks as threads.
//
//   step_driver STEP.json
#include <fmt/format.h>

#include "slimpack/packflow/device/memory_tracker.h"
#include "tests/packflow/step/driven_step.h"

int main(int argc, char** argv) {
  slimpack::install_memory_tracker();
  try {
    slimpack::testing::run_driven_step(argc > 1 ? argv[1] : "");
    return 0;
  } catch (const std::exception& e) {
    fmt::print(stderr, "step_driver: {}\n", e.what());
    return 1;
  }
}
