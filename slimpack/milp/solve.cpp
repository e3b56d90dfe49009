#include "slimpack/milp/solve.h"

#include <Highs.h>

#include <algorithm>
#include <cmath>

#include "slimpack/base/error.h"

namespace slimpack::milp {
namespace {

constexpr double kIntegrality = 1e-6;

/// One thread, because HiGHS keeps a pool per calling thread and refuses to change its size.
void set_options(Highs& highs, const SolveLimits& limits) {
  const double seconds = limits.seconds.value_or(kInfinity);
  SLIMPACK_CHECK(limits.nodes >= 0 && limits.relative_gap >= 0 && seconds >= 0,
                 "nodes {}, gap {}, seconds {}", limits.nodes, limits.relative_gap, seconds);
  bool ok = true;
  const auto set = [&](const char* name, const auto& value) {
    ok = ok && highs.setOptionValue(name, value) == HighsStatus::kOk;
  };
  set("output_flag", false);
  set("threads", HighsInt{1});
  set("parallel", "off");
  set("random_seed", HighsInt{0});
  set("mip_feasibility_tolerance", kIntegrality);
  set("mip_rel_gap", limits.relative_gap);
  set("mip_abs_gap", 0.0);
  constexpr std::int64_t kMost = std::numeric_limits<HighsInt>::max();
  set("mip_max_nodes", static_cast<HighsInt>(std::min(limits.nodes, kMost)));
  set("time_limit", seconds);
  SLIMPACK_CHECK(ok);
}

HighsLp to_highs(const ModelData& data) {
  HighsLp lp;
  lp.num_col_ = static_cast<HighsInt>(data.cost.size());
  lp.num_row_ = static_cast<HighsInt>(data.row_lower.size());
  lp.col_cost_ = data.cost;
  lp.col_lower_ = data.lower;
  lp.col_upper_ = data.upper;
  lp.row_lower_ = data.row_lower;
  lp.row_upper_ = data.row_upper;
  lp.a_matrix_.format_ = MatrixFormat::kRowwise;
  lp.a_matrix_.num_col_ = lp.num_col_;
  lp.a_matrix_.num_row_ = lp.num_row_;
  lp.a_matrix_.start_ = data.row_begin;
  lp.a_matrix_.index_ = data.column;
  lp.a_matrix_.value_ = data.coefficient;
  for (const bool integer : data.integer) {
    lp.integrality_.push_back(integer ? HighsVarType::kInteger : HighsVarType::kContinuous);
  }
  return lp;
}

Status status_of(const Highs& highs) {
  switch (highs.getModelStatus()) {
    case HighsModelStatus::kOptimal:
    case HighsModelStatus::kModelEmpty:
      return Status::kOptimal;
    case HighsModelStatus::kInfeasible:
      return Status::kInfeasible;
    case HighsModelStatus::kTimeLimit:
    case HighsModelStatus::kSolutionLimit:
    case HighsModelStatus::kIterationLimit:
      return highs.getInfo().primal_solution_status == kSolutionStatusFeasible ? Status::kFeasible
                                                                               : Status::kLimit;
    default:
      check_failed("model has a finite optimum", __FILE__, __LINE__,
                   highs.modelStatusToString(highs.getModelStatus()));
  }
}

Outcome outcome_of(const Highs& highs, const ModelData& data) {
  const HighsInfo& info = highs.getInfo();
  Outcome outcome;
  outcome.status = status_of(highs);
  const bool mip = std::find(data.integer.begin(), data.integer.end(), true) != data.integer.end();
  if (mip) outcome.nodes = std::max<std::int64_t>(0, info.mip_node_count);
  if (outcome.status == Status::kInfeasible) {
    outcome.bound = kInfinity;
    return outcome;
  }
  if (mip) outcome.bound = info.mip_dual_bound;
  if (outcome.status == Status::kLimit) return outcome;
  outcome.values = highs.getSolution().col_value;
  outcome.objective = 0;
  for (std::size_t i = 0; i < data.cost.size(); ++i) {
    if (data.integer[i]) outcome.values[i] = std::round(outcome.values[i]);
    outcome.objective += data.cost[i] * outcome.values[i];
  }
  if (!mip) outcome.bound = outcome.status == Status::kOptimal ? outcome.objective : -kInfinity;
  outcome.bound = std::min(outcome.bound, outcome.objective);
  return outcome;
}

}  // namespace

Outcome solve(const Model& model, const SolveLimits& limits, std::span<const double> start) {
  const ModelData& data = model.data();
  Highs highs;
  set_options(highs, limits);
  SLIMPACK_CHECK(highs.passModel(to_highs(data)) == HighsStatus::kOk);
  if (!start.empty()) {
    SLIMPACK_CHECK(start.size() == model.variables(), "{} start values for {} variables",
                   start.size(), model.variables());
    SLIMPACK_CHECK(std::none_of(start.begin(), start.end(), [](double v) { return v != v; }));
    HighsSolution solution;
    solution.col_value.assign(start.begin(), start.end());
    solution.value_valid = true;
    SLIMPACK_CHECK(highs.setSolution(solution) != HighsStatus::kError);
  }
  SLIMPACK_CHECK(highs.run() != HighsStatus::kError);
  return outcome_of(highs, data);
}

}  // namespace slimpack::milp
