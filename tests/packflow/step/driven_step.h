// Steps that a JSON file describes: the C++ side of the comparison with Hugging Face in Python
// tests.
#pragma once

#include <filesystem>

#include "slimpack/packflow/ranks/world.h"

namespace slimpack::testing {

/// Runs the file's steps; the process of rank 0 writes loss, gradients and weights as safetensors.
/// `process`: of several, which all run the same file; null = all ranks are threads of this one.
void run_driven_step(const std::filesystem::path& file, JobProcess* process = nullptr);

}  // namespace slimpack::testing
