// Steps:
//   1. Longest processing time first: items by falling work, each to where it ends earliest.
//   2. While it helps: of the most loaded replica and another, from the lightest upwards, exchange
//      the two items (or move the one) that leave the heavier of both as light as possible.
#include "slimpack/solver/balance.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <queue>
#include <utility>

#include "slimpack/base/error.h"

namespace slimpack {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
/// Gains below this share of a load are rounding.
constexpr double kLeastGain = 1e-12;

void check_problem(const BalanceProblem& problem) {
  SLIMPACK_CHECK(!problem.replicas.empty());
  for (const double work : problem.work) {
    SLIMPACK_CHECK(work >= 0 && work < kInfinity, "work {}", work);
  }
  for (const BalanceReplica& replica : problem.replicas) {
    SLIMPACK_CHECK(replica.speed > 0 && replica.speed < kInfinity, "speed {}", replica.speed);
    SLIMPACK_CHECK(replica.carried >= 0 && replica.carried < kInfinity, "carried {}",
                   replica.carried);
  }
}

using Item = std::int32_t;

/// Items by falling work; ties by index.
std::vector<Item> falling(const std::vector<double>& work) {
  std::vector<Item> order(work.size());
  std::iota(order.begin(), order.end(), 0);
  if (std::is_sorted(work.begin(), work.end(), std::greater<>())) return order;
  std::stable_sort(order.begin(), order.end(), [&](Item a, Item b) {
    return work[static_cast<std::size_t>(a)] > work[static_cast<std::size_t>(b)];
  });
  return order;
}

/// Exchange the item at `give` of one replica for that at `take` of another (none: a move).
struct Exchange {
  std::size_t give;
  std::optional<std::size_t> take;
  double heavier;  ///< load of the heavier of both afterwards
};

class Search {
 public:
  explicit Search(const BalanceProblem& problem)
      : problem_(problem), items_(problem.replicas.size()) {
    for (const BalanceReplica& replica : problem.replicas) {
      load_.push_back(replica.carried);
      time_per_work_.push_back(1 / replica.speed);
    }
  }

  /// Among replicas of one speed the least loaded one ends first, so each speed has a heap.
  void longest_first() {
    std::vector<BySpeed> speeds = by_speed();
    for (const Item item : falling(problem_.work)) {
      const double work = work_of(item);
      BySpeed* best = nullptr;
      Ending best_end;
      for (BySpeed& speed : speeds) {
        const auto [load, replica] = speed.lightest.top();
        const Ending end{load + work * speed.time_per_work, replica};
        if (best == nullptr || end < best_end) {
          best = &speed;
          best_end = end;
        }
      }
      best->lightest.pop();
      best->lightest.push(best_end);
      load_[best_end.second] = best_end.first;
      items_[best_end.second].push_back(item);
    }
  }

  void improve(double bound) {
    auto pairs = static_cast<std::int64_t>(16 * problem_.work.size() + 400000);
    for (;;) {
      const auto top =
          static_cast<std::size_t>(std::max_element(load_.begin(), load_.end()) - load_.begin());
      if (load_[top] * (1 - kLeastGain) <= bound || !relieve(top, pairs)) return;
    }
  }

  [[nodiscard]] std::vector<std::int32_t> replica_by_item() const {
    std::vector<std::int32_t> replica(problem_.work.size());
    for (std::size_t r = 0; r < items_.size(); ++r) {
      for (const Item item : items_[r]) {
        replica[static_cast<std::size_t>(item)] = static_cast<std::int32_t>(r);
      }
    }
    return replica;
  }

 private:
  /// When a replica ends, and which; ties go to the lowest index.
  using Ending = std::pair<double, std::size_t>;
  /// The replicas of one speed.
  struct BySpeed {
    double time_per_work;
    std::priority_queue<Ending, std::vector<Ending>, std::greater<>> lightest;
  };

  [[nodiscard]] std::vector<BySpeed> by_speed() const {
    std::map<double, std::size_t> place;
    std::vector<BySpeed> speeds;
    for (std::size_t r = 0; r < load_.size(); ++r) {
      const auto [at, first] = place.try_emplace(time_per_work_[r], speeds.size());
      if (first) speeds.push_back({time_per_work_[r], {}});
      speeds[at->second].lightest.emplace(load_[r], r);
    }
    return speeds;
  }

  [[nodiscard]] double work_of(Item item) const {
    return problem_.work[static_cast<std::size_t>(item)];
  }

  /// Makes `top` lighter with the help of one other replica. False: none can, or `pairs` ran out.
  bool relieve(std::size_t top, std::int64_t& pairs) {
    pairs -= static_cast<std::int64_t>(load_.size());
    // Few of them are asked, so a heap is quicker than sorting.
    std::vector<Ending> others;
    others.reserve(load_.size());
    for (std::size_t r = 0; r < load_.size(); ++r) others.emplace_back(load_[r], r);
    std::make_heap(others.begin(), others.end(), std::greater<>());
    for (auto left = others.end(); left != others.begin(); --left) {
      std::pop_heap(others.begin(), left, std::greater<>());
      const std::size_t other = (left - 1)->second;
      if (other == top) continue;
      pairs -= static_cast<std::int64_t>(items_[top].size() + items_[other].size());
      if (pairs < 0) return false;
      const std::optional<Exchange> best = best_exchange(top, other);
      if (best && best->heavier < load_[top] * (1 - kLeastGain)) {
        apply(top, other, *best);
        return true;
      }
    }
    return false;
  }

  /// Both lists fall, so what the best partner of an item is only moves on as the items go by.
  [[nodiscard]] std::optional<Exchange> best_exchange(std::size_t from, std::size_t to) const {
    // If `from` had this much work less, both would end at once.
    const double wanted = (load_[from] - load_[to]) / (time_per_work_[from] + time_per_work_[to]);
    const std::vector<Item>& takes = items_[to];
    std::optional<Exchange> best;
    const auto consider = [&](std::size_t give, std::optional<std::size_t> take) {
      const double less = work_of(items_[from][give]) - (take ? work_of(takes[*take]) : 0.0);
      if (less <= 0) return;
      const double heavier = std::max(load_[from] - less * time_per_work_[from],
                                      load_[to] + less * time_per_work_[to]);
      if (!best || heavier < best->heavier) best = Exchange{give, take, heavier};
    };
    std::size_t next = 0;  // the first item of `to` that is lighter than wished for
    for (std::size_t give = 0; give < items_[from].size(); ++give) {
      const double partner = work_of(items_[from][give]) - wanted;
      while (next < takes.size() && work_of(takes[next]) >= partner) ++next;
      if (next > 0) consider(give, next - 1);
      if (next < takes.size())
        consider(give, next);
      else
        consider(give, std::nullopt);
    }
    return best;
  }

  void apply(std::size_t from, std::size_t to, const Exchange& exchange) {
    const Item given = items_[from][exchange.give];
    items_[from].erase(items_[from].begin() + static_cast<std::ptrdiff_t>(exchange.give));
    if (exchange.take) {
      const Item taken = items_[to][*exchange.take];
      items_[to].erase(items_[to].begin() + static_cast<std::ptrdiff_t>(*exchange.take));
      insert(from, taken);
    }
    insert(to, given);
    load_[from] = load_from_items(from);
    load_[to] = load_from_items(to);
  }

  void insert(std::size_t replica, Item item) {
    std::vector<Item>& list = items_[replica];
    list.insert(std::upper_bound(list.begin(), list.end(), item,
                                 [&](Item a, Item b) { return work_of(a) > work_of(b); }),
                item);
  }

  /// Summed anew, so that rounding does not add up over many exchanges.
  [[nodiscard]] double load_from_items(std::size_t replica) const {
    double work = 0;
    for (const Item item : items_[replica]) work += work_of(item);
    return problem_.replicas[replica].carried + work * time_per_work_[replica];
  }

  const BalanceProblem& problem_;
  std::vector<std::vector<Item>> items_;  ///< by replica, by falling work
  std::vector<double> load_;
  std::vector<double> time_per_work_;  ///< by replica
};

/// The level to which the work fills the replicas when poured onto their carried loads.
double water_level(const BalanceProblem& problem) {
  std::vector<BalanceReplica> replicas = problem.replicas;
  std::sort(replicas.begin(), replicas.end(),
            [](const auto& a, const auto& b) { return a.carried < b.carried; });
  double work = std::accumulate(problem.work.begin(), problem.work.end(), 0.0);
  double speed = 0;
  double level = replicas.front().carried;
  for (const BalanceReplica& replica : replicas) {
    const double room = speed * (replica.carried - level);
    if (speed > 0 && work <= room) break;
    work -= room;
    level = replica.carried;
    speed += replica.speed;
  }
  return std::max(level + work / speed, replicas.back().carried);
}

double largest_item_end(const BalanceProblem& problem) {
  if (problem.work.empty()) return 0;
  const double work = *std::max_element(problem.work.begin(), problem.work.end());
  double end = kInfinity;
  for (const BalanceReplica& replica : problem.replicas) {
    end = std::min(end, replica.carried + work / replica.speed);
  }
  return end;
}

/// For equal speeds; carried loads count as items, which can only make the bound lower.
double pigeonhole(const BalanceProblem& problem) {
  const double speed = problem.replicas.front().speed;
  std::vector<double> work = problem.work;
  for (const BalanceReplica& replica : problem.replicas) {
    if (replica.speed != speed) return 0;
    if (replica.carried > 0) work.push_back(replica.carried * speed);
  }
  if (!std::is_sorted(work.begin(), work.end(), std::greater<>()))
    std::sort(work.begin(), work.end(), std::greater<>());
  std::vector<double> before(work.size() + 1, 0.0);
  std::partial_sum(work.begin(), work.end(), before.begin() + 1);
  double bound = 0;
  const std::size_t replicas = problem.replicas.size();
  for (std::size_t k = 1; k * replicas < work.size(); ++k) {
    const std::size_t end = k * replicas + 1;
    bound = std::max(bound, (before[end] - before[end - k - 1]) / speed);
  }
  return bound;
}

}  // namespace

Balance balance_of(const BalanceProblem& problem, std::vector<std::int32_t> replica, double bound) {
  Balance result;
  std::vector<double> work(problem.replicas.size(), 0.0);
  for (std::size_t i = 0; i < replica.size(); ++i) {
    work[static_cast<std::size_t>(replica[i])] += problem.work[i];
  }
  for (std::size_t r = 0; r < work.size(); ++r) {
    result.load.push_back(problem.replicas[r].carried + work[r] / problem.replicas[r].speed);
  }
  result.replica = std::move(replica);
  result.largest = *std::max_element(result.load.begin(), result.load.end());
  // Sums in another order may differ in the last digits.
  result.bound = std::min(bound, result.largest);
  return result;
}

double balance_bound(const BalanceProblem& problem) {
  check_problem(problem);
  return std::max({water_level(problem), largest_item_end(problem), pigeonhole(problem)});
}

Balance balance(const BalanceProblem& problem) {
  const double bound = balance_bound(problem);
  Search search(problem);
  search.longest_first();
  search.improve(bound);
  return balance_of(problem, search.replica_by_item(), bound);
}

}  // namespace slimpack
