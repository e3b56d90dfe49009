// Steps:
//   1. Binaries here[i][r], one replica for every item; the longest load bounds all; in units of
//      the start's largest load, because the solver's tolerances are absolute.
//   2. Replicas that equal each other may swap all they have: they are used in the order of their
//      heaviest items (Kaibel and Pfetsch, "Packing and partitioning orbitopes", 2008), stated for
//      the heaviest items only, because the rows grow. The start is renamed to obey that.
//   3. Solve from the start; keep what is better.
#include <algorithm>
#include <cstddef>
#include <numeric>

#include "slimpack/base/error.h"
#include "slimpack/solver/balance.h"

namespace slimpack {
namespace {

constexpr std::size_t kOrderedItems = 32;

constexpr auto kNone = static_cast<std::size_t>(-1);

/// By replica: the next that equals it and the one before (kNone: none), and how many come before.
struct Twins {
  std::vector<std::size_t> next;
  std::vector<std::size_t> previous;
  std::vector<std::size_t> before;
};

Twins find_twins(const std::vector<BalanceReplica>& replicas) {
  const std::size_t count = replicas.size();
  Twins twins{std::vector(count, kNone), std::vector(count, kNone), std::vector(count, 0UL)};
  for (std::size_t r = 0; r < count; ++r) {
    for (std::size_t q = 0; q < r; ++q) {
      if (replicas[q] == replicas[r]) twins.previous[r] = q;
    }
    if (twins.previous[r] == kNone) continue;
    twins.next[twins.previous[r]] = r;
    twins.before[r] = twins.before[twins.previous[r]] + 1;
  }
  return twins;
}

std::vector<std::size_t> falling_order(const std::vector<double>& work) {
  std::vector<std::size_t> order(work.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return work[a] > work[b]; });
  return order;
}

/// The assignment with equal replicas renamed in the order of their first items.
std::vector<std::size_t> renamed(const std::vector<std::int32_t>& replica,
                                 const std::vector<std::size_t>& order, const Twins& twins) {
  // By replica: its name, and, for the first of each class, the next name to give.
  std::vector<std::size_t> name(twins.next.size(), kNone);
  std::vector<std::size_t> to_give(twins.next.size());
  std::iota(to_give.begin(), to_give.end(), 0);
  std::vector<std::size_t> result(replica.size());
  for (const std::size_t item : order) {
    const auto old = static_cast<std::size_t>(replica[item]);
    if (name[old] == kNone) {
      std::size_t first = old;
      while (twins.previous[first] != kNone) first = twins.previous[first];
      name[old] = to_give[first];
      to_give[first] = twins.next[name[old]];
    }
    result[item] = name[old];
  }
  return result;
}

struct BalanceModel {
  milp::Model model;
  std::vector<std::vector<milp::Variable>> here;  ///< by item and replica
};

/// An item is on a replica only if an earlier item is on the twin before.
void use_twins_in_order(BalanceModel& built, const std::vector<std::size_t>& order,
                        const Twins& twins) {
  for (std::size_t r = 0; r < twins.previous.size(); ++r) {
    if (twins.previous[r] == kNone) continue;
    std::vector<milp::Term> earlier;
    for (std::size_t place = 0; place < order.size(); ++place) {
      const std::vector<milp::Variable>& here = built.here[order[place]];
      if (place < twins.before[r]) built.model.fix(here[r], 0);
      if (place >= twins.before[r] && place < kOrderedItems) {
        std::vector<milp::Term> terms = earlier;
        terms.push_back({here[r], -1});
        built.model.add_row(0, terms, milp::kInfinity);
      }
      earlier.push_back({here[twins.previous[r]], 1});
    }
  }
}

BalanceModel make_model(const BalanceProblem& problem, const Balance& start,
                        const std::vector<std::size_t>& order, const Twins& twins) {
  BalanceModel result;
  milp::Model& model = result.model;
  const double unit = start.largest;
  const milp::Variable longest = model.add_continuous(start.bound / unit, 1, 1);
  std::vector<std::vector<milp::Term>> load(problem.replicas.size());
  for (const double work : problem.work) {
    result.here.emplace_back();
    std::vector<milp::Term> once;
    for (std::size_t r = 0; r < load.size(); ++r) {
      const milp::Variable here = model.add_binary();
      result.here.back().push_back(here);
      once.push_back({here, 1});
      load[r].push_back({here, work / problem.replicas[r].speed / unit});
    }
    model.add_row(1, once, 1);
  }
  for (std::size_t r = 0; r < load.size(); ++r) {
    load[r].push_back({longest, -1});
    model.add_row(-milp::kInfinity, load[r], -problem.replicas[r].carried / unit);
  }
  use_twins_in_order(result, order, twins);
  return result;
}

}  // namespace

Balance balance_exact(const BalanceProblem& problem, const Balance& start,
                      const milp::SolveLimits& limits) {
  const double bound = std::max(start.bound, balance_bound(problem));
  SLIMPACK_CHECK(start.replica.size() == problem.work.size());
  for (const std::int32_t r : start.replica) {
    SLIMPACK_CHECK(r >= 0 && static_cast<std::size_t>(r) < problem.replicas.size(), "replica {}",
                   r);
  }
  SLIMPACK_CHECK(problem.work.size() * problem.replicas.size() <= kMaxExactBalance,
                 "{} items on {} replicas", problem.work.size(), problem.replicas.size());
  Balance best = balance_of(problem, start.replica, bound);
  if (best.largest * (1 - milp::kSolverTolerance) <= best.bound) return best;

  const std::vector<std::size_t> order = falling_order(problem.work);
  const Twins twins = find_twins(problem.replicas);
  const BalanceModel built = make_model(problem, best, order, twins);
  std::vector<double> values(built.model.variables(), 0.0);
  values.front() = 1;  // the first variable: the longest load, in units of itself
  const std::vector<std::size_t> from = renamed(best.replica, order, twins);
  for (std::size_t i = 0; i < from.size(); ++i) values[built.here[i][from[i]].index()] = 1;
  const milp::Outcome outcome = milp::solve(built.model, limits, values);

  const double solver_bound = (outcome.bound - milp::kSolverTolerance) * best.largest;
  const double better_bound = std::max(bound, std::min(solver_bound, best.largest));
  if (outcome.values.empty()) return balance_of(problem, best.replica, better_bound);
  std::vector<std::int32_t> replica(problem.work.size());
  for (std::size_t i = 0; i < replica.size(); ++i) {
    const auto& here = built.here[i];
    replica[i] = static_cast<std::int32_t>(
        std::find_if(here.begin(), here.end(),
                     [&](milp::Variable v) { return outcome.values[v.index()] == 1; }) -
        here.begin());
  }
  Balance found = balance_of(problem, std::move(replica), better_bound);
  if (found.largest <= best.largest) return found;
  return balance_of(problem, std::move(best.replica), better_bound);
}

}  // namespace slimpack
