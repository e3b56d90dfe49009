// The steps that every switch is measured on.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include "bench/planner/jobs.h"

namespace slimpack::bench {

/// Caps activations at what so many times the longest sequence, and 4,096 tokens, keep of rows.
void cap_at(StepJob& job, double times_longest);

/// Steps of one kind.
struct Setting {
  std::string name;
  std::vector<StepJob> jobs;
};

/// 1. A: setting A of the planner benchmark, four caps with and without overheads.
/// 2. B: setting B, three contexts with 512 and with 2,048 sequences, one seed.
/// 3. few: likewise with 16 and 32 sequences, which cannot be balanced whole.
/// 4. H100: Llama-3 8B and Qwen3 8B at three contexts, Llama-3 70B at the shortest, 512 sequences,
///    one seed.
/// 5. lists: the lengths of the file that setting A does not use, in lists of 512 sequences at
///    setting A with overheads, 80 GB and no cap.
/// 6. short: the first 64 sequences of each of these lists, likewise, capped at 1.2 × the longest
///    and with no cap.
/// 7. tiny: likewise their first 4 sequences.
/// At most `lists` lists. Throws InvalidInput when the file has too few lengths for a single one.
[[nodiscard]] std::vector<Setting> ablation_settings(const std::filesystem::path& lengths,
                                                     std::size_t lists);

}  // namespace slimpack::bench
