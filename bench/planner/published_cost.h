// Cost models with the accounting of published comparisons: FLOPs over speeds, 34·h bytes of
// activations per token and layer, no communication, no head.
#pragma once

#include "slimpack/cost/cost_model.h"
#include "slimpack/plan/plan.h"

namespace slimpack::bench {

/// Of a layer with h = 4096 on `tp` tensor-parallel ranks: 24·h² FLOPs per token and 4·h per causal
/// pair forward, divided by tp and these speeds.
struct PublishedSpeeds {
  std::int32_t tp = 1;
  double linear = 400e12;  ///< FLOP/s
  double attention_forward = 400e12;
  double attention_backward = 400e12;
  double attention_backward_work = 2;  ///< times the forward's; linear work is 2 times it
  double forward_overhead_us = 0;      ///< per layer and MicroPack
  double backward_overhead_us = 0;
};

/// Of 32 layers. Knows merging of up to `most_merged` replicas, at what it costs on H100 nodes in
/// setting B.
[[nodiscard]] Costs published_cost(const PublishedSpeeds& speeds, std::int32_t most_merged = 1);

/// The 32 layers in equal stages of `pp` ranks. REQUIRES: they divide 32.
[[nodiscard]] StageLayout equal_stages(std::int32_t pp, std::int32_t stages_per_rank = 1);

/// Forward and backward of these sequences uncut on one stage of `layers` layers, in nanoseconds,
/// without what MicroPacks cost by themselves.
[[nodiscard]] double stage_work(const Costs& cost, const SequenceLengths& lengths,
                                std::int32_t layers);

}  // namespace slimpack::bench
