#include "slimpack/packflow/sparse/sparse_attention.h"

#include <ATen/ops/sub.h>

#include <algorithm>
#include <utility>
#include <variant>

#include "slimpack/packflow/kernels/attention.h"
#include "slimpack/packflow/sparse/block_attention.h"
#include "slimpack/packflow/sparse/parallel_tasks.h"

namespace slimpack {
namespace {

/// A first impression looks at one in so many of the rows that a method looks at: as many rows as
/// kMostLost allows. Few rows need fewer keys than all do, so it errs towards sparse attention.
constexpr std::int64_t kMostRows = 8;
constexpr std::int64_t kFewestRows = 64;
/// The most that a first impression may be predicted to cost, as a share of dense attention. All of
/// it is lost where sparse attention does not pay. The measured cost is up to 4%, with 4,096 keys.
constexpr double kMostLost = 0.01;
/// The share of dense attention's time that a head must be predicted to save: measured costs
/// scatter by as much.
constexpr double kLeastGain = 0.1;

class Slice {
 public:
  Slice(const at::Tensor& q_TND, const KeysValues& kv, Tokens prefix, const SparseAttention& choice)
      : q_TND_(q_TND),
        kv_(kv),
        prefix_(prefix),
        choice_(choice),
        queries_(prefix, Tokens(q_TND.size(0))),
        sharing_(q_TND.size(1) / kv.k.size(1)),
        kept_(static_cast<std::size_t>(q_TND.size(1))) {}

  [[nodiscard]] AttentionResult run() {
    const std::optional<std::int64_t> thinning = first_impression();
    if (!thinning) return attention_forward(q_TND_, kv_, prefix_);
    const KeysValues kv = heads_end_to_end(kv_);
    choose_all(kv.k, *thinning);
    const auto is_sparse = [](const std::optional<KeptKeys>& own) { return own.has_value(); };
    if (std::ranges::none_of(kept_, is_sparse)) return attention_forward(q_TND_, kv_, prefix_);
    return block_attention(q_TND_, kv, queries_, kept_);
  }

  [[nodiscard]] SparseReport report(const AttentionResult& result) const {
    SparseReport report{queries_.dense_pairs(), {}};
    for (const std::optional<KeptKeys>& own : kept_)
      report.heads.push_back({!own, own ? own->pairs(queries_) : report.dense_pairs, std::nullopt});
    for (const std::int64_t n : choice_.measured_heads)
      report.heads[static_cast<std::size_t>(n)].kept = kept_share(n, result);
    return report;
  }

 private:
  /// The thinning of a first impression that costs little enough; none where even the least does
  /// not, or where lengths rule out a gain.
  [[nodiscard]] std::optional<std::int64_t> first_impression() const {
    if (!choice_.costs) return kMostRows;
    const double dense = dense_seconds(*choice_.costs, queries_);
    if (moving() + choosing(1) + least_sparse_seconds(*choice_.costs, queries_) >= dense)
      return std::nullopt;
    for (std::int64_t thinning = kMostRows; thinning <= kFewestRows; thinning *= 2)
      if (moving() + choosing(thinning) < kMostLost * dense) return thinning;
    return std::nullopt;
  }
  /// The seconds to move a head's keys and values, which it shares with others.
  [[nodiscard]] double moving() const {
    if (kv_.k.stride(0) == kv_.k.size(2) && kv_.v.stride(0) == kv_.v.size(2)) return 0;
    return 2 * choice_.costs->moved_row * static_cast<double>(queries_.keys()) /
           static_cast<double>(sharing_);
  }
  [[nodiscard]] bool pays(const KeptKeys& kept, double more_seconds) const {
    return !choice_.costs || sparse_seconds(*choice_.costs, queries_, kept) + more_seconds <
                                 (1 - kLeastGain) * dense_seconds(*choice_.costs, queries_);
  }
  [[nodiscard]] double choosing(std::int64_t thinning) const {
    return std::visit(
        [&](const auto& method) {
          return choosing_seconds(*choice_.costs,
                                  choosing_work(method, queries_, thinning, sharing_));
        },
        choice_.method);
  }

  void choose_all(const at::Tensor& k_LGD, std::int64_t thinning) {
    std::vector<at::Tensor> keys;
    for (std::int64_t g = 0; g < k_LGD.size(1); ++g) keys.push_back(k_LGD.select(1, g));
    std::vector<Choose> choosers(keys.size());
    for_each_task(std::ssize(keys), [&](std::int64_t g) {
      const auto group = static_cast<std::size_t>(g);
      choosers[group] =
          std::visit([&](const auto& method) { return chooser(method, keys[group], queries_); },
                     choice_.method);
    });
    for_each_task(q_TND_.size(1), [&](std::int64_t n) {
      kept_[static_cast<std::size_t>(n)] =
          chosen(choosers[static_cast<std::size_t>(n / sharing_)], q_TND_.select(1, n), thinning);
    });
  }

  [[nodiscard]] std::optional<KeptKeys> chosen(const Choose& choose, const at::Tensor& q_TD,
                                               std::int64_t thinning) const {
    if (choice_.costs &&
        !pays(in_fastest_blocks(*choice_.costs, queries_, choose(q_TD, thinning)), choosing(1)))
      return std::nullopt;
    KeptKeys kept = choose(q_TD, 1);
    if (choice_.costs) kept = in_fastest_blocks(*choice_.costs, queries_, kept);
    if (!pays(kept, 0)) return std::nullopt;
    return kept;
  }

  /// A query's kept share is the ratio of its two sums of exponentials.
  [[nodiscard]] KeptShare kept_share(std::int64_t n, const AttentionResult& result) const {
    const AttentionResult all =
        attention_forward(q_TND_.narrow(1, n, 1), keys_of_head(q_TND_, kv_, n), prefix_);
    const at::Tensor share = at::sub(result.lse_TN.narrow(1, n, 1), all.lse_TN).exp_();
    return {share.min().item().toDouble(), share.mean().item().toDouble()};
  }

  const at::Tensor& q_TND_;
  const KeysValues& kv_;
  Tokens prefix_;
  const SparseAttention& choice_;
  QueryBlocks queries_;
  std::int64_t sharing_;
  std::vector<std::optional<KeptKeys>> kept_;
};

}  // namespace

double SparseReport::density() const {
  double all = 0;
  for (const SparseHeadReport& head : heads) all += head.pairs;
  return all / (dense_pairs * static_cast<double>(heads.size()));
}

AttentionResult sparse_attention_forward(const at::Tensor& q_TND, const KeysValues& kv,
                                         Tokens prefix, const SparseAttention& choice,
                                         SparseReport* report) {
  check_sparse_method(choice.method);
  Slice slice(q_TND, kv, prefix, choice);
  AttentionResult result = slice.run();
  if (report != nullptr) *report = slice.report(result);
  return result;
}

}  // namespace slimpack
