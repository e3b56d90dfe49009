// Draws and plans the steps of a run. The first process of a job plans and hands its plans over.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>

#include "slimpack/data/sequences.h"
#include "slimpack/planner/planner.h"
#include "slimpack/training/document_stream.h"
#include "slimpack/training/job_agreement.h"
#include "slimpack/training/plan_ahead.h"
#include "slimpack/training/step_planner.h"

namespace slimpack {

/// A plan that was handed over cannot run here: its message is damaged or belongs to another run.
/// Only this process knows that. So the others cannot save anything together with it, and end as if
/// it were lost.
class HandoverFailed : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Makes a plan for sequences of these lengths with this planner.
using MakePlan = std::function<RunnablePlan(const StepPlanner&, const SequenceLengths&)>;

/// The plan that `make` makes for these sequences. Only the first process runs `make`; the others
/// get its plan and lowered schedules, and no other field. If `make` throws, all processes throw.
/// Throws InvalidInput if another process has other sequences or another number of targets; throws
/// HandoverFailed. Messages begin with `what`, such as "step 3".
[[nodiscard]] RunnablePlan plan_together(const JobAgreement& agreement, const StepPlanner& planner,
                                         std::span<const DocumentSequence> sequences,
                                         std::int64_t targets, std::string_view what,
                                         const MakePlan& make);

/// A step that is ready to run.
struct ReadyStep {
  StepBatch batch;
  RunnablePlan planned;  ///< only plan and lowered, except in the first process
  Nanos planning_time;   ///< 0 if this process did not plan
  Nanos waited;          ///< training waited so long for the plan
  Nanos reading_time;    ///< of drawing and reading the batch
};

/// Draws and plans one step ahead, on its own thread. Processes other than the first only draw;
/// they receive the plan between two steps and check it again.
class StepMaker {
 public:
  /// `agreement` must outlive this object.
  StepMaker(DocumentStream stream, StepPlanner planner, PlannerKind kind,
            const JobAgreement& agreement);
  StepMaker(const StepMaker&) = delete;
  StepMaker& operator=(const StepMaker&) = delete;

  /// Begins to make the next step and returns at once. `speeds`: of the ranks, from now on; empty =
  /// as the configuration has them. REQUIRES: every step begun was taken.
  void start(RankSpeeds speeds = {});

  /// The step that start() began, once it is ready; nullopt if a process is `out_of_time` by then.
  /// If making the step throws in one process, all throw. Throws Interrupted if one of several was
  /// asked to stop; throws HandoverFailed. REQUIRES: start() was called for this step.
  [[nodiscard]] std::optional<ReadyStep> take(std::string_view what,
                                              const std::function<bool()>& out_of_time);

  /// Plans a batch again with another planner while the caller waits.
  [[nodiscard]] ReadyStep again(StepBatch batch, PlannerKind kind) const;

  [[nodiscard]] const StepPlanner& planner() const { return planner_; }
  [[nodiscard]] const DocumentReader& reader() const { return stream_.reader(); }

 private:
  struct Made {
    ReadyStep step;
    std::string plan_message;  ///< in the first of several processes
  };

  [[nodiscard]] Made make();
  [[nodiscard]] ReadyStep take_alone();

  DocumentStream stream_;
  StepPlanner planner_;
  PlannerKind kind_;
  RankSpeeds speeds_;
  const JobAgreement& agreement_;
  PlanAhead<Made> ahead_;  ///< last: its thread ends before what it uses
};

}  // namespace slimpack
