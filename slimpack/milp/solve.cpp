#include "slimpack/milp/solve.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

#include "slimpack/base/error.h"

// The parts of HiGHS's C interface that are used here. The library comes from HiGHS's Python
// package (highspy), which has no headers. These are the declarations of highs_c_api.h,
// version 1.15; their binary interface does not depend on a compiler.
extern "C" {
void* Highs_create(void);
void Highs_destroy(void* highs);
std::int32_t Highs_setBoolOptionValue(void* highs, const char* option, std::int32_t value);
std::int32_t Highs_setIntOptionValue(void* highs, const char* option, std::int32_t value);
std::int32_t Highs_setDoubleOptionValue(void* highs, const char* option, double value);
std::int32_t Highs_setStringOptionValue(void* highs, const char* option, const char* value);
/// With the format kHighsRowwise, the entries of row r begin at a_start[r].
std::int32_t Highs_passMip(void* highs, std::int32_t columns, std::int32_t rows,
                           std::int32_t entries, std::int32_t a_format, std::int32_t sense,
                           double offset, const double* column_cost, const double* column_lower,
                           const double* column_upper, const double* row_lower,
                           const double* row_upper, const std::int32_t* a_start,
                           const std::int32_t* a_index, const double* a_value,
                           const std::int32_t* integrality);
std::int32_t Highs_setSolution(void* highs, const double* column_value, const double* row_value,
                               const double* column_dual, const double* row_dual);
std::int32_t Highs_run(void* highs);
std::int32_t Highs_getModelStatus(const void* highs);
std::int32_t Highs_getIntInfoValue(const void* highs, const char* info, std::int32_t* value);
std::int32_t Highs_getInt64InfoValue(const void* highs, const char* info, std::int64_t* value);
std::int32_t Highs_getDoubleInfoValue(const void* highs, const char* info, double* value);
/// Null = the caller does not want these values.
std::int32_t Highs_getSolution(const void* highs, double* column_value, double* column_dual,
                               double* row_value, double* row_dual);
std::int32_t Highs_getSizeofHighsInt(const void* highs);
}

namespace slimpack::milp {
namespace {

constexpr std::int32_t kHighsError = -1, kHighsOk = 0;  ///< what the functions return
constexpr std::int32_t kHighsContinuous = 0, kHighsInteger = 1;
constexpr std::int32_t kHighsMinimize = 1;
constexpr std::int32_t kHighsRowwise = 2;
constexpr std::int32_t kHighsFeasiblePoint = 2;  ///< of "primal_solution_status"

/// Highs_getModelStatus.
enum class HighsModelStatus : std::int32_t {
  kModelEmpty = 6,
  kOptimal = 7,
  kInfeasible = 8,
  kTimeLimit = 13,
  kIterationLimit = 14,
  kSolutionLimit = 16,
};

using Highs = std::unique_ptr<void, decltype(&Highs_destroy)>;

Highs make_highs() {
  Highs highs(Highs_create(), Highs_destroy);
  SLIMPACK_CHECK(Highs_getSizeofHighsInt(highs.get()) == sizeof(std::int32_t));
  return highs;
}

/// One thread: HiGHS keeps a pool per calling thread and refuses to change the pool's size.
void set_options(void* highs, const SolveLimits& limits) {
  const double seconds = limits.seconds.value_or(kInfinity);
  SLIMPACK_CHECK(limits.nodes >= 0 && limits.relative_gap >= 0 && seconds >= 0,
                 "nodes {}, gap {}, seconds {}", limits.nodes, limits.relative_gap, seconds);
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
  const auto nodes = static_cast<std::int32_t>(std::min(limits.nodes, kMost));
  for (const std::int32_t status :
       {Highs_setBoolOptionValue(highs, "output_flag", 0),
        Highs_setIntOptionValue(highs, "threads", 1),
        Highs_setStringOptionValue(highs, "parallel", "off"),
        Highs_setIntOptionValue(highs, "random_seed", 0),
        Highs_setDoubleOptionValue(highs, "mip_feasibility_tolerance", kSolverTolerance),
        Highs_setDoubleOptionValue(highs, "mip_rel_gap", limits.relative_gap),
        Highs_setDoubleOptionValue(highs, "mip_abs_gap", 0),
        Highs_setIntOptionValue(highs, "mip_max_nodes", nodes),
        Highs_setDoubleOptionValue(highs, "time_limit", seconds)})
    SLIMPACK_CHECK(status == kHighsOk);
}

void pass_model(void* highs, const ModelData& data) {
  std::vector<std::int32_t> integrality;
  for (const bool integer : data.integer)
    integrality.push_back(integer ? kHighsInteger : kHighsContinuous);
  SLIMPACK_CHECK(Highs_passMip(highs, static_cast<std::int32_t>(data.cost.size()),
                               static_cast<std::int32_t>(data.row_lower.size()),
                               static_cast<std::int32_t>(data.coefficient.size()), kHighsRowwise,
                               kHighsMinimize, /*offset=*/0, data.cost.data(), data.lower.data(),
                               data.upper.data(), data.row_lower.data(), data.row_upper.data(),
                               data.row_begin.data(), data.column.data(), data.coefficient.data(),
                               integrality.data()) == kHighsOk);
}

std::int32_t int_info(const void* highs, const char* name) {
  std::int32_t value = 0;
  SLIMPACK_CHECK(Highs_getIntInfoValue(highs, name, &value) == kHighsOk);
  return value;
}

Status status_of(const void* highs) {
  const std::int32_t status = Highs_getModelStatus(highs);
  switch (static_cast<HighsModelStatus>(status)) {
    case HighsModelStatus::kOptimal:
    case HighsModelStatus::kModelEmpty:
      return Status::kOptimal;
    case HighsModelStatus::kInfeasible:
      return Status::kInfeasible;
    case HighsModelStatus::kTimeLimit:
    case HighsModelStatus::kSolutionLimit:
    case HighsModelStatus::kIterationLimit:
      return int_info(highs, "primal_solution_status") == kHighsFeasiblePoint ? Status::kFeasible
                                                                              : Status::kLimit;
  }
  check_failed("model has a finite optimum", __FILE__, __LINE__,
               "HiGHS's model status is " + std::to_string(status));
}

/// Figures of HiGHS about the search of a mixed-integer program.
struct MipInfo {
  std::int64_t nodes = 0;
  double bound = 0;
};
MipInfo mip_info(const void* highs) {
  MipInfo info;
  SLIMPACK_CHECK(Highs_getInt64InfoValue(highs, "mip_node_count", &info.nodes) == kHighsOk &&
                 Highs_getDoubleInfoValue(highs, "mip_dual_bound", &info.bound) == kHighsOk);
  info.nodes = std::max<std::int64_t>(0, info.nodes);
  return info;
}

Outcome outcome_of(const void* highs, const ModelData& data) {
  Outcome outcome;
  outcome.status = status_of(highs);
  const bool mip = std::find(data.integer.begin(), data.integer.end(), true) != data.integer.end();
  const MipInfo info = mip ? mip_info(highs) : MipInfo{};
  outcome.nodes = info.nodes;
  if (outcome.status == Status::kInfeasible) {
    outcome.bound = kInfinity;
    return outcome;
  }
  if (mip) outcome.bound = info.bound;
  if (outcome.status == Status::kLimit) return outcome;
  outcome.values.resize(data.cost.size());
  SLIMPACK_CHECK(Highs_getSolution(highs, outcome.values.data(), nullptr, nullptr, nullptr) ==
                 kHighsOk);
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
  const Highs highs = make_highs();
  set_options(highs.get(), limits);
  pass_model(highs.get(), data);
  if (!start.empty()) {
    SLIMPACK_CHECK(start.size() == model.variables(), "{} start values for {} variables",
                   start.size(), model.variables());
    SLIMPACK_CHECK(std::none_of(start.begin(), start.end(), [](double v) { return v != v; }));
    SLIMPACK_CHECK(Highs_setSolution(highs.get(), start.data(), nullptr, nullptr, nullptr) !=
                   kHighsError);
  }
  SLIMPACK_CHECK(Highs_run(highs.get()) != kHighsError);
  return outcome_of(highs.get(), data);
}

}  // namespace slimpack::milp
