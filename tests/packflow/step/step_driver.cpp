// Runs steps with ranks as threads: reads the path of a step's JSON file from each line of its
// input and answers with a line, "done" or what went wrong.
#include <fmt/format.h>

#include <iostream>
#include <string>

#include "slimpack/packflow/device/memory_tracker.h"
#include "tests/packflow/step/driven_step.h"

int main() {
  slimpack::install_memory_tracker();
  for (std::string file; std::getline(std::cin, file);) {
    std::string answer = "done";
    try {
      slimpack::testing::run_driven_step(file);
    } catch (const std::exception& e) {
      answer = e.what();
    }
    std::cout << answer << std::endl;
  }
}
