// Where asymmetric cuts pay: symmetric ones against them, while one thing about a job changes.
#pragma once

#include "bench/ablation/ablation.h"

namespace slimpack::bench {

/// One replica with the costs of setting B, 64 log-normal sequences of at most 128K tokens, 4
/// stages, split backwards and no cap, over some seeds; then with fewer MicroPacks, under memory
/// caps, with whole backwards, with other numbers of stages. The JSON is [{"varied", "value",
/// "symmetric", "asymmetric"}]: steps with one kind of cuts alone against the search of both, as in
/// Ablation.
[[nodiscard]] Ablation run_asymmetry();

}  // namespace slimpack::bench
