#include "slimpack/packflow/sparse/sparse_costs.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/randn.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <utility>
#include <vector>

#include "slimpack/packflow/device/rank_clock.h"
#include "slimpack/packflow/kernels/attention.h"
#include "slimpack/packflow/sparse/block_attention.h"
#include "slimpack/packflow/sparse/parallel_tasks.h"
#include "slimpack/packflow/sparse/sampled_rows.h"

namespace slimpack {
namespace {

/// REQUIRES: one of kBlockSizes.
const BlockCosts& costs_of(const SparseCosts& costs, std::int64_t block) {
  const auto place = std::ranges::find(kBlockSizes, block) - kBlockSizes.begin();
  return costs.blocks[static_cast<std::size_t>(place)];
}

}  // namespace

double dense_seconds(const SparseCosts& costs, const QueryBlocks& queries) {
  return costs.dense_pair * queries.dense_pairs();
}

double least_sparse_seconds(const SparseCosts& costs, const QueryBlocks& queries) {
  return costs.blocks.front().own * static_cast<double>(queries.count());
}

double sparse_seconds(const SparseCosts& costs, const QueryBlocks& slice, const KeptKeys& kept) {
  const BlockCosts& block_costs = costs_of(costs, kept.block);
  const QueryBlocks queries = slice.in_blocks_of(kept.block);
  double seconds = costs.packed_key * static_cast<double>(kept.columns.size());
  for (std::int64_t b = 0; b < queries.count(); ++b) {
    const BlockKeys& block = kept.blocks[static_cast<std::size_t>(b)];
    const BlockCalls calls = calls_of(block);
    const auto rows = static_cast<double>(queries.queries(b).keys());
    // A part of a block takes its share: it is seldom, and short.
    seconds += block_costs.own * rows / static_cast<double>(kept.block) +
               block_costs.call * static_cast<double>(calls.calls) +
               costs.packed_key * static_cast<double>(calls.packed_keys) +
               block_costs.pair * rows * static_cast<double>(block.keys());
  }
  return seconds;
}

KeptKeys in_fastest_blocks(const SparseCosts& costs, const QueryBlocks& queries,
                           const KeptKeys& kept) {
  KeptKeys best = kept;
  double least = sparse_seconds(costs, queries, kept);
  for (const std::int64_t size : kBlockSizes) {
    KeptKeys larger = joined(kept, queries, size);
    const double seconds = sparse_seconds(costs, queries, larger);
    if (seconds < least) {
      least = seconds;
      best = std::move(larger);
    }
  }
  return best;
}

double choosing_seconds(const SparseCosts& costs, const ChoosingWork& work) {
  return costs.choice + costs.product_pair * work.products + costs.weight_pair * work.weights +
         costs.moved_row * work.copied_rows;
}

namespace {

/// A slice in the middle of a long sequence: lengths where sparse attention begins to matter, and
/// short enough to be measured at the start of a program.
constexpr std::int64_t kQueries = 1024;
constexpr std::int64_t kKeys = 4096;
constexpr std::int64_t kSampled = 64;

class Bench {
 public:
  Bench(const at::Tensor& q_TND, const KeysValues& kv)
      : device_(q_TND.device()),
        // The tensors have all heads, so that rows lie as far apart as in a model. One head is
        // measured: programs beside this one disturb long calls more than short ones.
        q_TND_(at::randn({kQueries, q_TND.size(1), q_TND.size(2)}, q_TND.options())),
        kv_(KeysValues{at::randn({kKeys, kv.k.size(1), q_TND.size(2)}, q_TND.options()),
                       at::randn({kKeys, kv.k.size(1), q_TND.size(2)}, q_TND.options())}),
        one_(heads_end_to_end(keys_of_head(q_TND_, kv_, 0))),
        q_T1D_(q_TND_.narrow(1, 0, 1)) {}

  [[nodiscard]] SparseCosts costs() const {
    SparseCosts c;
    const auto prefix = Tokens(kKeys - kQueries);
    const QueryBlocks queries(prefix, Tokens(kQueries));
    c.dense_pair =
        seconds([&] {
          static_cast<void>(attention_forward(q_T1D_, keys_of_head(q_TND_, kv_, 0), prefix));
        }) /
        queries.dense_pairs();
    for (std::size_t i = 0; i < kBlockSizes.size(); ++i) c.blocks[i] = block_costs(kBlockSizes[i]);
    c.packed_key = seconds([&] { static_cast<void>(packed(one_, every_other_block())); }) /
                   static_cast<double>(kKeys / 2);
    c.moved_row =
        seconds([&] { static_cast<void>(heads_end_to_end(keys_of_head(q_TND_, kv_, 0))); }) /
        static_cast<double>(2 * kKeys);
    measure_choosing(c);
    return c;
  }

 private:
  [[nodiscard]] BlockCosts block_costs(std::int64_t rows) const {
    const at::Tensor block = q_T1D_.narrow(0, 0, rows);
    const auto own = [&] { return attend(block, one_.narrow(0, rows), Mask::kCausal); };
    const AttentionResult found = own();
    const at::Tensor out = at::empty_like(found.out_TND), lse = at::empty_like(found.lse_TN);
    const double own_seconds = seconds([&] {
      const AttentionResult stored = own();
      out.copy_(stored.out_TND);
      lse.copy_(stored.lse_TN);
    });
    const auto on_keys = [&](std::int64_t keys) {
      return seconds([&] {
        static_cast<void>(merged(found, attend(block, one_.narrow(0, keys), Mask::kNone)));
      });
    };
    const double few = on_keys(kSparseBlock), many = on_keys(kKeys);
    const double pair = (many - few) / static_cast<double>(rows * (kKeys - kSparseBlock));
    return {pair, std::max(0.0, few - pair * static_cast<double>(rows * kSparseBlock)),
            own_seconds};
  }

  static std::vector<KeyRun> every_other_block() {
    std::vector<KeyRun> runs;
    for (std::int64_t key = 0; key < kKeys; key += 2 * kSparseBlock)
      runs.push_back({key, key + kSparseBlock});
    return runs;
  }

  void measure_choosing(SparseCosts& c) const {
    const at::Tensor q_TD = q_T1D_.select(1, 0), k_LD = one_.k.select(1, 0);
    const RowSample sample{kKeys - kSampled, 1, kSampled};
    const auto pairs = static_cast<double>(kSampled * kKeys);
    const auto summed = [&](const RowSample& rows) {
      const at::Tensor p_RL = sampled_softmax(q_TD, k_LD, kKeys - kQueries, rows);
      static_cast<void>(block_sums(p_RL.sum({0})));
      static_cast<void>(block_sums(distance_sums(p_RL)));
    };
    const double all = seconds([&] { summed(sample); });
    c.choice = seconds([&] { summed({kKeys - 1, 1, 1}); });
    const at::Tensor rows = q_TD.narrow(0, kQueries - kSampled, kSampled);
    c.product_pair = seconds([&] { static_cast<void>(rows.mm(k_LD.t())); }) / pairs;
    c.weight_pair = std::max(0.0, all - c.choice - c.product_pair * pairs) / pairs;
  }

  /// The seconds of one call while every thread runs one, divided by the number of threads: heads
  /// share the machine in the same way. Processor time, which other programs do not lengthen, and
  /// the shortest of some turns.
  [[nodiscard]] double seconds(const std::function<void()>& call) const {
    constexpr int kTurns = 7;
    const std::int64_t threads = device_.is_cpu() ? at::get_num_threads() : 1;
    double least = std::numeric_limits<double>::infinity();
    for (int turn = 0; turn <= kTurns; ++turn) {
      std::vector<Nanos> spent(static_cast<std::size_t>(threads));
      for_each_task(threads, [&](std::int64_t thread) {
        const RankClock clock(device_.is_cpu() ? ClockKind::kVirtual : ClockKind::kWall, {},
                              nullptr, device_);
        const Nanos start = clock.time_of(clock.moment());
        call();
        spent[static_cast<std::size_t>(thread)] = clock.time_of(clock.moment()) - start;
      });
      if (turn > 0)  // the first fills caches and memory pools
        least = std::min(least, to_seconds(std::ranges::max(spent)));
    }
    return least / static_cast<double>(threads);
  }

  at::Device device_;
  at::Tensor q_TND_;
  KeysValues kv_, one_;
  at::Tensor q_T1D_;
};

}  // namespace

SparseCosts measured_sparse_costs(const at::Tensor& q_TND, const KeysValues& kv) {
  return Bench(q_TND, kv).costs();
}

}  // namespace slimpack
