// Documents for benchmarks: the Python standard library's source files as bytes, chosen as
// bench/torch_pipelining.py chooses them, so that both run the same work.
#pragma once

#include <cstdint>
#include <vector>

#include "slimpack/base/units.h"

namespace slimpack {

/// Whole files, shuffled by Python's random.Random(seed), each truncated at `context` bytes, until
/// `step_tokens` are reached or passed. Asks the python3 on PATH for the files.
/// Throws InvalidInput when there is no python3 or no such file.
[[nodiscard]] std::vector<std::vector<std::int64_t>> standard_library_documents(Tokens context,
                                                                                Tokens step_tokens,
                                                                                std::int64_t seed);

}  // namespace slimpack
