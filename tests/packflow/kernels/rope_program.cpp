// Prints what rope_test.py compares with transformers: the factor of cos and sin, then the inverse
// frequencies, one a line, as fp32 or fp64 computes them.
#include <exception>

#include "slimpack/base/error.h"
#include "slimpack/packflow/kernels/rope.h"

using namespace slimpack;

int main(int argc, char** argv) {
  try {
    if (argc != 3) invalid_input("usage: rope_program config.json fp32|fp64");
    const bool wide = std::string_view(argv[2]) == "fp64";
    const RopeFrequencies rope =
        rope_frequencies(read_decoder(argv[1]), wide ? at::kDouble : at::kFloat);
    fmt::print("{}\n", rope.attention_factor);
    for (std::int64_t i = 0; i < rope.inverse.size(0); ++i)
      fmt::print("{}\n", rope.inverse[i].item<double>());
    return 0;
  } catch (const std::exception& e) {
    fmt::print(stderr, "{}\n", e.what());
    return 2;
  }
}
