// What another training program does otherwise than ours, as far as it takes time. Its figures are
// added to what the cost model says of the hardware (costs.h).
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace slimpack::bench {

/// All 0: the program does as the cost model says.
struct RuntimeSpec {
  /// What the host needs to start the kernels of a layer's forward. A pass of a layer takes at
  /// least as long, however few rows it has. A backward that runs the layer again pays it, too.
  double layer_host_us = 0;
  /// Of that, for each collective of tensor parallelism: to start it, and to wait for the slowest
  /// of the other ranks, for each of them.
  double collective_host_us = 0;
  double collective_rank_us = 0;
  double edge_host_us = 0;  ///< of embedding and of head, per MicroPack
  /// What norms, dropout and residuals move in forward, per token, layer and hidden dimension;
  /// backward moves twice as much. Tensor-parallel ranks share it only with sequence sharding.
  double elementwise_bytes = 0;
  /// What attention without a flash kernel moves in forward, per causal pair and query head;
  /// backward moves twice as much.
  double score_bytes = 0;
  double logit_bytes = 0;      ///< what the loss moves in both passes, per logit
  double optimizer_bytes = 0;  ///< per parameter of a rank; 0 = as the cost model

  bool operator==(const RuntimeSpec&) const = default;
};

struct RuntimeField {
  std::string_view name;
  double RuntimeSpec::*figure;
};
/// In the order of the struct.
[[nodiscard]] std::span<const RuntimeField> runtime_fields();

/// TOML with the names of the fields at top level; absent ones are 0. Throws InvalidInput naming
/// `origin`, line, key, value and rule: a number of 0 or more.
[[nodiscard]] RuntimeSpec runtime_from_toml(std::string_view text, const std::string& origin);

}  // namespace slimpack::bench
