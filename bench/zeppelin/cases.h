// The grid on which Zeppelin (arXiv:2509.21841) was measured: clusters, models and kinds of
// lengths.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "slimpack/cost/cost_model.h"

namespace slimpack::bench {

struct Cluster {
  std::string name;
  HardwareSpec hardware;
};
/// A800 with 4 NICs of 200 Gb/s for eight GPUs, and H800 with one of 400 Gb/s for each.
[[nodiscard]] std::vector<Cluster> zeppelin_clusters();

struct NamedModel {
  std::string name;
  Decoder shape;
};
/// Llama 3B, 7B and 13B: every query head has a key head of its own.
[[nodiscard]] std::vector<NamedModel> zeppelin_models();

/// The paper names its data and shows them as pictures. These draw lengths of the same kind:
/// log-normal with the median and spread of papers (arxiv) and of source files (github), and
/// documents of 64K tokens among short ones (prolong64k).
[[nodiscard]] std::vector<std::string> zeppelin_length_kinds();

/// Lengths of a kind with so many tokens in all; the last one is cut off.
[[nodiscard]] SequenceLengths draw_lengths(const std::string& kind, Tokens total,
                                           std::uint64_t seed);

}  // namespace slimpack::bench
