// Workloads of bench/fidelity: grids of ranks and lengths of one step, drawn from a seed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "slimpack/base/units.h"
#include "slimpack/packflow/device/rank_clock.h"
#include "slimpack/packflow/step/step_inputs.h"
#include "slimpack/plan/slice.h"
#include "slimpack/spec/dtype.h"

namespace slimpack::bench {

enum class Lengths : std::uint8_t {
  kShort,       ///< log-normal, median 150, at most an eighth of the context
  kLongTailed,  ///< log-normal, median 665, truncated at the context
  kOneGiant,    ///< one as long as the context, and short ones
  kEqual,       ///< all an eighth of the context
};

struct Workload {
  Lengths lengths = Lengths::kShort;
  std::int32_t pp = 1;
  std::int32_t dp = 1;
  std::int32_t most_merged = 1;
  ClockKind clock = ClockKind::kWall;  ///< virtual where there are more ranks than two cores
  Dtype dtype = Dtype::kFp32;
  std::uint64_t seed = 0;

  /// "pp 4 × dp 2, one giant, bf16"
  [[nodiscard]] std::string name() const;
};

/// Thirty: pp 1 and 2 by the wall clock, pp 4 and 8, pp 2 × dp 2 and four replicas that merge in
/// virtual time, each with every kind of lengths in fp32 and one of them in bf16.
[[nodiscard]] std::vector<Workload> workloads();

/// Sequences until `tokens` are reached or passed.
[[nodiscard]] SequenceLengths lengths_of(const Workload& workload, Tokens tokens, Tokens context);

/// Random bytes of these lengths.
[[nodiscard]] StepTokens random_bytes(const SequenceLengths& lengths, std::uint64_t seed);

}  // namespace slimpack::bench
