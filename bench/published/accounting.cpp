#include "bench/published/accounting.h"

#include <algorithm>

#include "slimpack/cost/cost_model.h"

namespace slimpack::bench {
namespace {

/// A size, by the ranks that split it.
struct Split {
  double norms = 0;     ///< whole without sequence sharding
  double products = 0;  ///< by heads and columns

  [[nodiscard]] double of_rank(const PublishedJob& job) const {
    return (job.sequence_sharded ? norms / job.tp : norms) + products / job.tp;
  }
};

Split kept(const PublishedJob& job, Kept what) {
  const LayerShape layer = job.shape.kinds[0];
  const auto h = static_cast<double>(layer.hidden_size);
  const auto k = static_cast<double>(layer.k_width());
  const auto f = static_cast<double>(layer.active_width());
  if (what == Kept::kInput) return {.norms = 2 * h};
  if (what == Kept::kEverySecond) return {.norms = 4 * h, .products = 4 * h + 2 * k + 2 * f};
  if (job.accounting == Accounting::kMegatron2022) {
    const auto scores =
        static_cast<double>(job.lengths.front().count() * job.shape.kinds[0].num_heads);
    return {.norms = 10 * h, .products = 24 * h + (what == Kept::kEverything ? 5 * scores : 0)};
  }
  const double mlp = job.accounting == Accounting::kMegatron2023 ? 8 * f : 6 * f;
  return {.norms = 8 * h, .products = 4 * h + 4 * k + mlp};
}

double parameters_of(const PublishedJob& job, std::int32_t rank) {
  double parameters = 0;
  for (const StageId stage : job.layout.placement.stages_of(rank))
    parameters += static_cast<double>(stage_parameters(job.shape, job.layout, stage));
  return parameters / job.tp;
}

double pack_tokens(const PublishedJob& job) {
  double tokens = 0;
  for (const Slice& slice : job.packs.forward.front().slices)
    tokens += static_cast<double>(slice.length().count());
  return tokens;
}

}  // namespace

double row_bytes(const PublishedJob& job) {
  return kept(job, job.kept).of_rank(job);
}

double state_bytes(const PublishedJob& job, std::int32_t rank) {
  const double parameters = parameters_of(job, rank);
  if (job.accounting == Accounting::kFullySharded) {
    const auto bucket = static_cast<double>(
        std::max(job.shape.kinds[0].parameters(), job.shape.embedding_parameters()));
    return 16 * parameters / job.dp + 2 * 2 * bucket / job.tp;
  }
  return (6 + 12.0 / (job.shared == Shared::kNothing ? 1 : job.dp)) * parameters;
}

double working_bytes(const PublishedJob& job, std::int32_t rank) {
  const double tokens = pack_tokens(job);
  double layer = job.kept == Kept::kInput ? kept(job, Kept::kEverything).of_rank(job) * tokens : 0;
  if (job.accounting != Accounting::kMegatron2022) {
    const LayerShape shape = job.shape.kinds[0];
    const auto f = static_cast<double>(shape.active_width());
    const auto h = static_cast<double>(shape.hidden_size);
    layer += (4 * 2 * f * h + 4 * f * tokens) / job.tp;
  }
  if (rank != job.layout.ranks() - 1) return layer;
  const double logit = job.accounting == Accounting::kFused ? 4 : 12;
  const double logits = logit * tokens * static_cast<double>(job.shape.vocab_size) / job.tp;
  return std::max(layer, logits);
}

}  // namespace slimpack::bench
