// The time that another training program takes beyond ours. Its figures are added to the cost
// model's times of the hardware (costs.h).
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace slimpack::bench {

/// All 0: the program takes the time of the cost model.
struct RuntimeSpec {
  /// The time that the host needs to start the kernels of a layer's forward. A pass of a layer
  /// takes at least as long, however few rows it has. A backward that runs the layer again pays it,
  /// too.
  double layer_host_us = 0;
  /// The host's time for each collective of tensor parallelism, beside layer_host_us: to start it,
  /// and for each other rank, because it waits for the slowest of them.
  double collective_host_us = 0;
  double collective_rank_us = 0;
  double edge_host_us = 0;  ///< of embedding and of head, per MicroPack
  /// The bytes that norms, dropout and residuals move in forward, per token, layer and hidden
  /// dimension; backward moves twice as much. Tensor-parallel ranks share them only with sequence
  /// sharding.
  double elementwise_bytes = 0;
  /// The bytes that attention without a flash kernel moves in forward, per causal pair and query
  /// head; backward moves twice as much.
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
