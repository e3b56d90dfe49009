#include "slimpack/solver/micro_batches.h"

#include <algorithm>
#include <numeric>

#include "slimpack/base/error.h"

namespace slimpack {
namespace {

struct Bin {
  std::vector<std::int32_t> sequences;
  Tokens tokens;
  double work = 0;
};

/// An exchange: the bins between which a sequence of the most loaded rank goes, and the sequence
/// that comes back for it (−1 = none).
struct SequenceExchange {
  std::size_t from = 0;  ///< bins
  std::size_t to = 0;
  std::int32_t sequence = -1;
  std::int32_t back = -1;
  double largest;  ///< of the two ranks' work afterwards
};

class Balancing {
 public:
  Balancing(std::span<const double> work, std::span<const Tokens> tokens,
            const MicroBatchRule& rule)
      : work_(work),
        tokens_(tokens),
        rule_(rule),
        bins_(static_cast<std::size_t>(rule.ranks) * static_cast<std::size_t>(rule.per_rank)),
        load_(static_cast<std::size_t>(rule.ranks)) {}

  /// Most work first, into the lightest micro-batch with room of the least loaded rank that has
  /// one. Result: whether all found some.
  bool fill() {
    std::vector<std::int32_t> order(work_.size());
    std::iota(order.begin(), order.end(), 0);
    std::ranges::stable_sort(order, std::greater<>(), [&](std::int32_t s) {
      return std::pair(work_[index(s)], tokens_[index(s)]);
    });
    return std::ranges::all_of(order, [&](std::int32_t sequence) {
      return place(sequence, [&](std::size_t a, std::size_t b) {
        return std::pair(load_[rank_of(a)], bins_[a].work) <
               std::pair(load_[rank_of(b)], bins_[b].work);
      });
    });
  }

  /// Best fit decreasing by tokens: the longest first, to the micro-batch with the least room for
  /// it. Finds room more often than `fill`. Result: whether all found some.
  bool fill_tightly() {
    std::ranges::fill(bins_, Bin{});
    std::ranges::fill(load_, 0.0);
    std::vector<std::int32_t> order(work_.size());
    std::iota(order.begin(), order.end(), 0);
    std::ranges::stable_sort(order, std::greater<>(),
                             [&](std::int32_t s) { return tokens_[index(s)]; });
    return std::ranges::all_of(order, [&](std::int32_t sequence) {
      return place(sequence, [&](std::size_t a, std::size_t b) {
        return std::pair(room(bins_[a]), load_[rank_of(a)]) <
               std::pair(room(bins_[b]), load_[rank_of(b)]);
      });
    });
  }

  /// A micro-batch without sequences takes the lightest one of those that have several.
  void fill_empty() {
    for (std::size_t empty = 0; empty < bins_.size(); ++empty) {
      if (!bins_[empty].sequences.empty()) continue;
      std::optional<std::size_t> giver;
      for (std::size_t bin = 0; bin < bins_.size(); ++bin)
        if (bins_[bin].sequences.size() > 1 &&
            (!giver || last_work(bins_[bin]) < last_work(bins_[*giver])))
          giver = bin;
      if (!giver) return;
      const std::int32_t sequence = bins_[*giver].sequences.back();
      remove(*giver, sequence);
      add(empty, sequence);
    }
  }

  void improve() {
    while (const std::optional<SequenceExchange> better = best_exchange()) apply(*better);
  }

  [[nodiscard]] MicroBatches result() {
    MicroBatches result{{}, load_};
    for (std::size_t rank = 0; rank < load_.size(); ++rank) {
      const auto first = bins_.begin() + static_cast<std::ptrdiff_t>(rank * per_rank());
      const auto last = first + rule_.per_rank;
      std::stable_sort(first, last, [](const Bin& a, const Bin& b) { return a.work > b.work; });
      auto& batches = result.of_rank.emplace_back();
      for (auto bin = first; bin != last; ++bin) {
        std::ranges::sort(bin->sequences);
        batches.push_back(bin->sequences);
      }
    }
    return result;
  }

 private:
  static std::size_t index(std::int32_t sequence) { return static_cast<std::size_t>(sequence); }
  [[nodiscard]] std::size_t per_rank() const { return static_cast<std::size_t>(rule_.per_rank); }
  [[nodiscard]] std::size_t rank_of(std::size_t bin) const { return bin / per_rank(); }
  /// The work of the sequence that was added last, which is the lightest.
  [[nodiscard]] double last_work(const Bin& bin) const {
    return work_[index(bin.sequences.back())];
  }
  [[nodiscard]] Tokens room(const Bin& bin) const { return rule_.cap - bin.tokens; }

  void add(std::size_t bin, std::int32_t sequence) {
    bins_[bin].sequences.push_back(sequence);
    bins_[bin].tokens += tokens_[index(sequence)];
    bins_[bin].work += work_[index(sequence)];
    load_[rank_of(bin)] += work_[index(sequence)];
  }
  void remove(std::size_t bin, std::int32_t sequence) {
    std::erase(bins_[bin].sequences, sequence);
    bins_[bin].tokens -= tokens_[index(sequence)];
    bins_[bin].work -= work_[index(sequence)];
    load_[rank_of(bin)] -= work_[index(sequence)];
  }

  /// Into the micro-batch with room that comes before all others.
  template <class Before>
  bool place(std::int32_t sequence, const Before& before) {
    std::optional<std::size_t> best;
    for (std::size_t bin = 0; bin < bins_.size(); ++bin)
      if (room(bins_[bin]) >= tokens_[index(sequence)] && (!best || before(bin, *best))) best = bin;
    if (best) add(*best, sequence);
    return best.has_value();
  }

  /// The exchange that makes the most loaded rank and its partner lightest; nullopt where none
  /// does.
  [[nodiscard]] std::optional<SequenceExchange> best_exchange() const {
    const auto heaviest = static_cast<std::size_t>(std::ranges::max_element(load_) - load_.begin());
    const double least = load_[heaviest] * (1 - 1e-9);  // what rounding gains is no gain
    std::optional<SequenceExchange> best;
    const auto consider = [&](SequenceExchange exchange) {
      const std::size_t partner = rank_of(exchange.to);
      const double moved =
          work_[index(exchange.sequence)] - (exchange.back < 0 ? 0 : work_[index(exchange.back)]);
      exchange.largest = std::max(load_[heaviest] - moved, load_[partner] + moved);
      if (exchange.largest < (best ? best->largest : least)) best = exchange;
    };
    for (std::size_t from = heaviest * per_rank(); from < (heaviest + 1) * per_rank(); ++from)
      for (std::size_t to = 0; to < bins_.size(); ++to)
        if (rank_of(to) != heaviest) consider_bins(from, to, consider);
    return best;
  }

  template <class Consider>
  void consider_bins(std::size_t from, std::size_t to, const Consider& consider) const {
    for (const std::int32_t sequence : bins_[from].sequences) {
      const Tokens tokens = tokens_[index(sequence)];
      if (tokens <= room(bins_[to]) && bins_[from].sequences.size() > 1)
        consider({from, to, sequence, -1, 0});
      for (const std::int32_t back : bins_[to].sequences) {
        const Tokens more = tokens - tokens_[index(back)];
        if (work_[index(sequence)] > work_[index(back)] && more <= room(bins_[to]) &&
            Tokens(0) - more <= room(bins_[from]))
          consider({from, to, sequence, back, 0});
      }
    }
  }

  void apply(const SequenceExchange& exchange) {
    remove(exchange.from, exchange.sequence);
    if (exchange.back >= 0) {
      remove(exchange.to, exchange.back);
      add(exchange.from, exchange.back);
    }
    add(exchange.to, exchange.sequence);
  }

  std::span<const double> work_;
  std::span<const Tokens> tokens_;
  const MicroBatchRule& rule_;
  std::vector<Bin> bins_;  ///< rank by rank
  std::vector<double> load_;
};

}  // namespace

double MicroBatches::imbalance() const {
  const double sum = std::accumulate(work.begin(), work.end(), 0.0);
  if (sum <= 0) return 1;
  return *std::ranges::max_element(work) * static_cast<double>(work.size()) / sum;
}

std::optional<MicroBatches> balanced_micro_batches(std::span<const double> work,
                                                   std::span<const Tokens> tokens,
                                                   const MicroBatchRule& rule) {
  SLIMPACK_CHECK(rule.ranks >= 1 && rule.per_rank >= 1 && rule.cap >= Tokens(1));
  SLIMPACK_CHECK(work.size() == tokens.size());
  Balancing balancing(work, tokens, rule);
  if (!balancing.fill() && !balancing.fill_tightly()) return std::nullopt;
  balancing.fill_empty();
  balancing.improve();
  return balancing.result();
}

}  // namespace slimpack
