// Everything that turns lengths into a plan of a whole step.
#pragma once

#include <functional>
#include <ostream>
#include <string>
#include <vector>

#include "slimpack/planner/planner.h"
#include "tests/conformance/workload.h"
#include "tests/support/plan_request.h"

namespace slimpack::conformance {

using testing::PlanRequest;

/// A way to plan with plan_step.
struct Planner {
  std::string name;
  std::function<void(PlanRequest&, const Workload&)> set_up;  ///< what it wants beside the lengths
  Extent extent = {};
  double share = 1;  ///< of the usual number of cases: less where one takes long

  friend void PrintTo(const Planner& planner, std::ostream* out) { *out << planner.name; }
};

/// Every kind of planner, solver and search that has an answer of its own.
[[nodiscard]] std::vector<Planner> planners();

/// The request for a planner: all of the workload, and the options that the planner wants.
[[nodiscard]] PlanRequest request_of(const Planner& planner, const Workload& workload);

struct MadeStep {
  PlanRequest request;
  RunnablePlan step;
  Tokens unit{1};                ///< the plan cuts at multiples of it only
  std::int32_t most_merged = 1;  ///< and runs no pack on more replicas
};

/// The step that plan_step made of the request.
[[nodiscard]] MadeStep made_by_planner(const PlanRequest& request, const RunnablePlan& step);

/// A way to plan that always has an answer.
struct StepMaker {
  std::string name;
  std::function<MadeStep(const Workload&)> make;
  Extent extent = {};
  double share = 1;
  bool repeats = true;  ///< gives the same answer to the same question

  friend void PrintTo(const StepMaker& maker, std::ostream* out) { *out << maker.name; }
};

/// Every planner without a memory cap, planning with a time budget, and every baseline.
[[nodiscard]] std::vector<StepMaker> step_makers();

/// The parameter's name as GoogleTest wants it.
struct NameOf {
  template <class Info>
  std::string operator()(const Info& info) const {
    std::string name = info.param.name;
    for (char& c : name)
      if (c == '-' || c == ' ') c = '_';
    return name;
  }
};

}  // namespace slimpack::conformance
