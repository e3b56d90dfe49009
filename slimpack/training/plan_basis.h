// The costs and the layout with which all plans of a run are made, and the costs that it keeps in
// its output folder for the next run.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "slimpack/cost/cost_model.h"
#include "slimpack/packflow/profile/profile.h"
#include "slimpack/plan/plan.h"
#include "slimpack/plan/slice.h"
#include "slimpack/planner/planner.h"
#include "slimpack/spec/decoder.h"
#include "slimpack/spec/run_config.h"
#include "slimpack/training/document_stream.h"
#include "slimpack/training/job_agreement.h"
#include "slimpack/training/run_state.h"
#include "slimpack/training/training_listener.h"
#include "slimpack/training/training_start.h"

namespace slimpack {

/// Costs, and whether other load on the machine disturbed their measurement.
struct FreshCosts {
  Costs cost;
  bool disturbed = false;
};

/// The costs in `file` if they are fresh: a profile with these options on this machine, at most a
/// day old. Otherwise what `measure` measures, which `file` then keeps, unless it was disturbed or
/// a file is there that says anything else. `tell` gets a line on what is used or not, and why.
/// Throws as write_file. REQUIRES: no job.
[[nodiscard]] Costs kept_or_measured(const std::filesystem::path& file,
                                     const ProfileOptions& options,
                                     const std::function<FreshCosts()>& measure,
                                     const std::function<void(const std::string&)>& tell);

/// Settings of a run's plans that a caller chooses beside the run's configuration.
struct PlanSettings {
  SearchOptions search = {};
  std::optional<Costs> cost = std::nullopt;  ///< in place of those that the run would find
  /// Where measured costs are kept for the next run (kept_or_measured); empty = nowhere.
  std::filesystem::path kept_cost = {};
};

struct PlanBasis {
  Costs cost;
  StageLayout layout;
};

/// The checkpoint's costs and layout if the run resumes (`saved`: the checkpoint's state, else
/// null) with the same ranks. Otherwise the given costs, else the configured ones, else kept ones,
/// else measured ones, and the layout that balances `first`, the first step. All
/// processes measure together; the first one decides, and the others receive the result. What
/// several processes measure is not kept: it depends on what connects them.
[[nodiscard]] PlanBasis choose_plan_basis(const RunConfig& config, const Decoder& shape,
                                          const TrainingStart& start, const RunState* saved,
                                          const StepBatch& first, const JobAgreement& agreement,
                                          TrainingListener& listener,
                                          const PlanSettings& settings = {});

}  // namespace slimpack
