// Rules for everything that shares work out to replicas. A new way is added in sharers().
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <ostream>
#include <string>
#include <vector>

#include "slimpack/solver/assign.h"
#include "slimpack/solver/balance.h"
#include "tests/conformance/step_makers.h"
#include "tests/support/any_of.h"
#include "tests/support/expect_holds.h"

namespace slimpack::conformance {
namespace {

using testing::any_of;
using testing::expect_holds;

/// Whole numbers and speeds of powers of two, so that sums are exact and optima well apart.
rc::Gen<BalanceProblem> problems(int items, int replicas, bool carried) {
  return rc::gen::exec([=] {
    BalanceProblem problem;
    const auto work = rc::gen::weightedOneOf<int>({{3, any_of(1, 9)}, {1, any_of(1, 99)}});
    for (const int w : *rc::gen::container<std::vector<int>>(work))
      if (problem.work.size() < static_cast<std::size_t>(items)) problem.work.push_back(w);
    const bool alike = *rc::gen::arbitrary<bool>();
    problem.replicas.resize(static_cast<std::size_t>(*any_of(1, replicas)));
    for (BalanceReplica& replica : problem.replicas) {
      if (alike) continue;
      replica.speed = *rc::gen::element(1.0, 0.5, 2.0);
      if (carried) replica.carried = *any_of(0, 40);
    }
    return problem;
  });
}

struct Shares {
  std::vector<std::size_t> replica;  ///< by item
  std::vector<double> load;          ///< by replica, as the sharer says

  [[nodiscard]] double largest() const { return *std::max_element(load.begin(), load.end()); }
  bool operator==(const Shares&) const = default;
};

struct Sharer {
  std::string name;
  std::function<Shares(const BalanceProblem&)> share;
  bool exact = false;    ///< finds the optimum
  bool carries = false;  ///< may begin with replicas that have something to do

  friend void PrintTo(const Sharer& sharer, std::ostream* out) { *out << sharer.name; }
};

Shares shares_of(const Balance& balance, const BalanceProblem& problem) {
  RC_ASSERT(balance.largest == *std::max_element(balance.load.begin(), balance.load.end()));
  RC_ASSERT(balance.bound <= balance.largest);
  RC_ASSERT(balance.bound >= balance_bound(problem) * (1 - 1e-12));
  Shares shares{{}, balance.load};
  for (const std::int32_t r : balance.replica)
    shares.replica.push_back(static_cast<std::size_t>(r));
  return shares;
}

using Assign = std::function<Assignment(const AssignProblem&)>;

/// Merges nothing.
Assign whole(std::optional<milp::SolveLimits> exact) {
  return [exact](const AssignProblem& problem) {
    return assign(problem, std::numeric_limits<double>::infinity(), exact);
  };
}

Assignment best_fit(const AssignProblem& problem) {
  return *fitted(problem, std::numeric_limits<double>::infinity());
}

/// Items as sequences of so many tokens of a nanosecond each.
Shares assigned(const BalanceProblem& problem, const Assign& assign) {
  SequenceLengths lengths;
  for (const double work : problem.work) lengths.emplace_back(static_cast<std::int64_t>(work));
  std::vector<double> speed;
  for (const BalanceReplica& replica : problem.replicas) speed.push_back(replica.speed);
  const std::vector<PackCost> groups{{.per_token = 1}};
  const Assignment assignment = assign({lengths, speed, groups});
  RC_ASSERT(assignment.merged.empty());
  RC_ASSERT(assignment.own.size() == problem.replicas.size());
  Shares shares{std::vector<std::size_t>(lengths.size(), problem.replicas.size()), assignment.load};
  for (std::size_t r = 0; r < assignment.own.size(); ++r)
    for (const SequenceId q : assignment.own[r]) {
      RC_ASSERT(shares.replica.at(q.index()) == problem.replicas.size());  // not placed before
      shares.replica[q.index()] = r;
    }
  return shares;
}

/// To the end, where its own bound proves it best.
Shares exactly_balanced(const BalanceProblem& problem) {
  const Balance found = balance_exact(problem, balance(problem), {});
  RC_ASSERT(found.bound >= found.largest * (1 - 4e-6) - 1e-9);
  return shares_of(found, problem);
}

std::vector<Sharer> sharers() {
  using P = BalanceProblem;
  return {
      {.name = "balance",
       .share = [](const P& p) { return shares_of(balance(p), p); },
       .carries = true},
      {"exact balance", exactly_balanced, true, true},
      {"assign", [](const P& p) { return assigned(p, whole(std::nullopt)); }},
      {"exact assign", [](const P& p) { return assigned(p, whole(milp::SolveLimits{})); }, true},
      {"fitted", [](const P& p) { return assigned(p, best_fit); }},
  };
}

std::vector<double> loads_of(const BalanceProblem& problem,
                             const std::vector<std::size_t>& replica) {
  std::vector<double> load(problem.replicas.size(), 0);
  for (std::size_t i = 0; i < replica.size(); ++i) load.at(replica[i]) += problem.work[i];
  for (std::size_t r = 0; r < load.size(); ++r)
    load[r] = problem.replicas[r].carried + load[r] / problem.replicas[r].speed;
  return load;
}

double best_by_enumeration(const BalanceProblem& problem) {
  std::vector<std::size_t> replica(problem.work.size(), 0);
  double best = std::numeric_limits<double>::infinity();
  for (;;) {
    const std::vector<double> load = loads_of(problem, replica);
    best = std::min(best, *std::max_element(load.begin(), load.end()));
    std::size_t i = 0;
    while (i < replica.size() && ++replica[i] == problem.replicas.size()) replica[i++] = 0;
    if (i == replica.size()) return best;
  }
}

class EverySharer : public ::testing::TestWithParam<Sharer> {};

TEST_P(EverySharer, PutsEveryItemOnOneReplicaAndCountsLoadsNoLowerThanTheBound) {
  expect_holds(
      [] {
        const BalanceProblem problem = *problems(GetParam().exact ? 10 : 40, 6, GetParam().carries);
        const Shares shares = GetParam().share(problem);
        RC_ASSERT(shares.replica.size() == problem.work.size());
        RC_ASSERT(shares.load == loads_of(problem, shares.replica));
        RC_ASSERT(shares.largest() >= balance_bound(problem) - 1e-9);
        RC_ASSERT(GetParam().share(problem) == shares);
      },
      GetParam().exact ? 0.3 : 1);
}

TEST_P(EverySharer, IsNoBetterThanTheBestOfAllSharesAndAsGoodIfExact) {
  expect_holds([] {
    const BalanceProblem problem = *problems(8, 3, GetParam().carries);
    const double best = best_by_enumeration(problem);
    const double largest = GetParam().share(problem).largest();
    RC_ASSERT(largest >= best);
    if (GetParam().exact) RC_ASSERT(largest <= best * (1 + 1e-9));
    RC_ASSERT(balance_bound(problem) <= best + 1e-9);
  });
}

INSTANTIATE_TEST_SUITE_P(Shares, EverySharer, ::testing::ValuesIn(sharers()), NameOf());

}  // namespace
}  // namespace slimpack::conformance
