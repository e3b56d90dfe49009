// Rules for everything that cuts sequences into MicroPacks. A new cutter is added in cutters().
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>
#include <ostream>
#include <string>
#include <vector>

#include "slimpack/planner/exact_packs.h"
#include "slimpack/solver/exact_cut.h"
#include "slimpack/solver/fluid_cut.h"
#include "slimpack/solver/unit_cut.h"
#include "tests/conformance/step_checks.h"
#include "tests/support/any_of.h"
#include "tests/support/bound_costs.h"
#include "tests/support/expect_holds.h"

namespace slimpack::conformance {
namespace {

using testing::any_of;
using testing::expect_holds;

/// One replica's sequences on stages of one layer each.
struct CutProblem {
  SequenceLengths lengths;
  Tokens grid{1};
  int packs = 1;
  RecomputingCosts cost;
  StageLayout layout;

  [[nodiscard]] PackCost cost_of(Pass pass) const {
    return stage_cost(cost, layout, StageId(0), pass);
  }
};

void showValue(const CutProblem& problem, std::ostream& out) {
  for (const Tokens length : problem.lengths) out << length.count() << " ";
  out << "tokens on a grid of " << problem.grid.count() << ", " << problem.packs << " packs, "
      << problem.layout.stages() << " stages";
  for (const Pass pass : kWholePasses) {
    const PackCost cost = problem.cost_of(pass);
    out << (pass == Pass::kBackward ? ", backward " : ", forward ") << cost.per_pack << " "
        << cost.per_slice << " " << cost.per_token << " " << cost.per_pair << " "
        << cost.per_prefix_token << " " << cost.per_window_pair << " " << cost.per_window_prefix
        << " within " << cost.window.count();
  }
}

/// Coefficients of which any may be 0, of magnitudes at which any may matter; 0 = no window.
PackCost drawn_time(Tokens window) {
  const auto up_to = [](int most) {
    return *any_of(0, 2) == 0 ? 0.0 : static_cast<double>(*any_of(0, most));
  };
  PackCost time{up_to(400), up_to(200), up_to(9), up_to(9) / 16, up_to(5)};
  if (window == Tokens(0)) return time;
  time.window = window;
  time.per_window_pair = up_to(9) / 16;
  time.per_window_prefix = up_to(5);
  return time;
}

/// Problems of so many granules at most, whole ones often, so that sequences of equal length
/// appear.
rc::Gen<CutProblem> problems(int granules, int packs) {
  return rc::gen::exec([=] {
    CutProblem problem;
    problem.grid = Tokens(*rc::gen::element(1, 5, 32));
    const auto size = rc::gen::pair(any_of(1, 4), rc::gen::arbitrary<bool>());
    int left = granules;
    for (const auto& [wanted, whole] :
         *rc::gen::nonEmpty(rc::gen::container<std::vector<std::pair<int, bool>>>(size))) {
      if (left == 0) break;
      const int got = std::min(wanted, left);
      left -= got;
      problem.lengths.push_back(problem.grid * got - (whole ? Tokens(0) : problem.grid / 2));
    }
    problem.packs = *any_of(1, packs);
    problem.layout.layer_begin.resize(static_cast<std::size_t>(1 + *any_of(1, 5)));
    std::iota(problem.layout.layer_begin.begin(), problem.layout.layer_begin.end(), 0);
    problem.cost.shape.set_layers(problem.layout.layer_begin.back());
    const Tokens window = problem.grid * *any_of(0, 2) - Tokens(*any_of(0, 1));
    problem.cost.kinds.front().forward = drawn_time(std::max(window, Tokens(0)));
    problem.cost.kinds.front().backward = drawn_time(std::max(window, Tokens(0)));
    return problem;
  });
}

struct Cutter {
  std::string name;
  std::function<PackPlan(const CutProblem&)> cut;
  bool exact = false;    ///< finds the least time when it is let
  bool repacks = false;  ///< backward may have more packs than asked for
  double share = 1;

  friend void PrintTo(const Cutter& cutter, std::ostream* out) { *out << cutter.name; }
};

PackPlan fluid(const CutProblem& problem, const FluidCutOptions& options, int short_first = 0) {
  return fluid_cut(problem.lengths,
                   fluid_order(problem.lengths, all_sequences(problem.lengths), short_first),
                   problem.cost_of(Pass::kForward), problem.cost_of(Pass::kBackward), options);
}

FluidCutOptions options_of(const CutProblem& problem) {
  return {.packs = problem.packs, .granularity = problem.grid};
}

Unit unit_of(const CutProblem& problem) {
  return units_of(problem.lengths, {{all_sequences(problem.lengths)}, {}, {1}}).front();
}

/// Everything in one MicroPack.
PackPlan in_one(const CutProblem& problem) {
  MicroPack pack;
  for (const SequenceId q : all_sequences(problem.lengths))
    pack.slices.push_back({q, Tokens(0), problem.lengths[q.index()]});
  return {{pack}, {pack}};
}

/// Never worse than its start, and proven best where nothing limits it.
PackPlan exact_from(const CutProblem& problem, const PackPlan& start,
                    const milp::SolveLimits& limits) {
  const auto cut = [&](Pass pass) {
    ExactCutProblem exact;
    exact.lengths = problem.lengths;
    exact.sequences = all_sequences(problem.lengths);
    exact.pass = pass;
    exact.cost = problem.cost_of(pass);
    exact.stages = problem.layout.stages();
    exact.grid = problem.grid;
    exact.packs = problem.packs;
    const auto& given = start.of(pass);
    const ExactCut found = exact_cut(exact, given, limits);
    RC_ASSERT(found.time == pass_time(found.packs, exact.cost, exact.stages));
    RC_ASSERT(found.time <= pass_time(given, exact.cost, exact.stages) * (1 + 1e-12));
    RC_ASSERT(found.bound <= found.time);
    if (limits.nodes == milp::SolveLimits{}.nodes) {
      RC_ASSERT(found.optimal);
      RC_ASSERT(found.bound >= found.time * (1 - 4e-6));
    }
    return found.packs;
  };
  return {cut(Pass::kForward), cut(Pass::kBackward)};
}

std::vector<Cutter> cutters() {
  return {
      {"fluid", [](const CutProblem& p) { return fluid(p, options_of(p)); }},
      {.name = "fluid symmetric",
       .cut =
           [](const CutProblem& p) {
             FluidCutOptions options = options_of(p);
             options.asymmetric = false;
             return fluid(p, options);
           },
       .repacks = true},
      {"fluid tapered",
       [](const CutProblem& p) {
         FluidCutOptions options = options_of(p);
         options.taper_front = options.taper_back = 2;
         options.taper = 0.25;
         return fluid(p, options, 2);
       }},
      {"unit",
       [](const CutProblem& p) {
         UnitCutOptions options{options_of(p)};
         return cut_unit(unit_of(p), {{p.cost_of(Pass::kForward)}, {p.cost_of(Pass::kBackward)}},
                         options)
             .front();
       }},
      {.name = "exact from fluid",
       .cut = [](const CutProblem& p) { return exact_from(p, fluid(p, options_of(p)), {}); },
       .exact = true,
       .share = 0.2},
      {.name = "exact for two nodes",
       .cut =
           [](const CutProblem& p) { return exact_from(p, fluid(p, options_of(p)), {.nodes = 2}); },
       .share = 0.2},
      {.name = "exact from one pack",
       .cut = [](const CutProblem& p) { return exact_from(p, in_one(p), {}); },
       .exact = true,
       .share = 0.2},
      {.name = "exact packs",
       .cut =
           [](const CutProblem& p) {
             const Choices choices{.granularity = p.grid};
             const StepProblem step =
                 step_problem(stage_table(p.cost, p.layout), p.lengths, choices);
             const SearchRequest request{step, {.exact = {.nodes = 100, .size = 1000}}};
             return exact_packs(request, unit_of(p), p.packs, {}).value();
           },
       .exact = true,
       .share = 0.2},
  };
}

/// The least time of one pass over all ways to put granules into packs, in order within each
/// sequence; on plain numbers, without the solvers' cost functions.
class Enumeration {
 public:
  Enumeration(const CutProblem& problem, Pass pass)
      : time_(pass == Pass::kForward ? problem.cost.kinds.front().forward
                                     : problem.cost.kinds.front().backward),
        stages_(problem.layout.stages()),
        packs_(static_cast<std::size_t>(problem.packs), -1) {
    for (const Tokens length : problem.lengths) {
      std::vector<std::int64_t>& cuts = cuts_.emplace_back();
      for (std::int64_t at = 0; at < length.count(); at += problem.grid.count()) cuts.push_back(at);
      cuts.push_back(length.count());
      if (pass == Pass::kBackward) std::reverse(cuts.begin(), cuts.end());
    }
    place(0, 0, 0);
  }
  [[nodiscard]] double least() const { return least_; }

 private:
  /// The cost of rows a … b − 1, which attend to a + 1, …, b rows, or to the window's at most.
  [[nodiscard]] double cost(std::int64_t from, std::int64_t to) const {
    const auto a = static_cast<double>(std::min(from, to));
    const auto b = static_cast<double>(std::max(from, to));
    const auto window = static_cast<double>(time_.window.count());
    double pairs = 0;
    for (double row = a; row < b; ++row) pairs += std::min(row + 1, window);
    const double before = window > 0 ? std::min(a, window - 1) : 0;
    return time_.per_slice + time_.per_token * (b - a) +
           time_.per_pair * (b * (b + 1) - a * (a + 1)) / 2 + time_.per_prefix_token * a +
           time_.per_window_pair * pairs + time_.per_window_prefix * before;
  }

  /// The next slice of sequence `q` begins at its cut `at`, in pack `pack` or later.
  void place(std::size_t q, std::size_t at, std::size_t pack) {
    if (q == cuts_.size()) {
      finish();
      return;
    }
    const std::vector<std::int64_t>& cuts = cuts_[q];
    if (at + 1 == cuts.size()) {
      place(q + 1, 0, 0);
      return;
    }
    for (std::size_t p = pack; p < packs_.size(); ++p)
      for (std::size_t end = at + 1; end < cuts.size(); ++end) {
        const double before = packs_[p];
        packs_[p] = (before < 0 ? time_.per_pack : before) + cost(cuts[at], cuts[end]);
        place(q, end, p + 1);
        packs_[p] = before;
      }
  }

  /// Every pack once, and the largest again at every further stage.
  void finish() {
    double sum = 0;
    double largest = 0;
    for (const double time : packs_) {
      sum += std::max(time, 0.0);
      largest = std::max(largest, time);
    }
    least_ = std::min(least_, sum + (stages_ - 1) * largest);
  }

  PackCost time_;
  int stages_;
  std::vector<double> packs_;  ///< so far; below 0 = not in use
  std::vector<std::vector<std::int64_t>> cuts_;
  double least_ = std::numeric_limits<double>::infinity();
};

void require_valid(const Cutter& cutter, const CutProblem& problem, const PackPlan& packs) {
  const StepPlan plan{problem.lengths, problem.layout, {{all_sequences(problem.lengths), packs}}};
  RC_ASSERT(check_plan(plan) == std::vector<std::string>{});
  require_every_token_once(plan);
  RC_ASSERT(packs.forward.size() <= static_cast<std::size_t>(problem.packs));
  if (!cutter.repacks) RC_ASSERT(packs.backward.size() <= static_cast<std::size_t>(problem.packs));
  for (const auto* pass : {&packs.forward, &packs.backward})
    for (const MicroPack& pack : *pass)
      for (const Slice& slice : pack.slices) {
        RC_ASSERT(slice.begin.count() % problem.grid.count() == 0);
        if (slice.end < problem.lengths[slice.sequence.index()])
          RC_ASSERT(slice.end.count() % problem.grid.count() == 0);
      }
}

class EveryCutter : public ::testing::TestWithParam<Cutter> {};

TEST_P(EveryCutter, MakesValidPacksThatRepeat) {
  expect_holds(
      [] {
        const CutProblem problem = *problems(GetParam().share < 1 ? 10 : 24, 4);
        const PackPlan packs = GetParam().cut(problem);
        require_valid(GetParam(), problem, packs);
        RC_ASSERT(GetParam().cut(problem) == packs);
      },
      GetParam().share < 1 ? 0.1 : 1);
}

TEST_P(EveryCutter, TakesNoLessThanTheBestOfAllCutsAndJustSoIfExact) {
  expect_holds(
      [] {
        const CutProblem problem = *problems(8, 3);
        const PackPlan packs = GetParam().cut(problem);
        for (const Pass pass : kWholePasses) {
          const auto& cut = packs.of(pass);
          const double least = Enumeration(problem, pass).least();
          const double time = pass_time(cut, problem.cost_of(pass), problem.layout.stages());
          if (cut.size() <= static_cast<std::size_t>(problem.packs))
            RC_ASSERT(time >= least * (1 - 1e-12));
          if (GetParam().exact) RC_ASSERT(time <= least * (1 + 2e-6));
        }
      },
      GetParam().share);
}

INSTANTIATE_TEST_SUITE_P(Cuts, EveryCutter, ::testing::ValuesIn(cutters()), NameOf());

}  // namespace
}  // namespace slimpack::conformance
