// Makes the steps of a run ready: the first process of a job plans, and hands its plans over.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>

#include "slimpack/data/sequences.h"
#include "slimpack/planner/plan_ahead.h"
#include "slimpack/planner/planner.h"
#include "slimpack/training/document_stream.h"
#include "slimpack/training/job_agreement.h"
#include "slimpack/training/step_planner.h"

namespace slimpack {

/// A plan that was handed over cannot run here: the message is damaged, or of another run. Only
/// this process knows, so the others cannot save anything together with it, and end as when it is
/// lost.
class HandoverFailed : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Plans for `sequences`, by the planner that is given.
using MakePlan = std::function<RatedPlan(const StepPlanner&, const SequenceLengths&)>;

/// What `make` plans for these sequences in the first process, in all processes; in others than the
/// first plan and schedules alone, which is what runs. Throws in all what `make` throws, and
/// InvalidInput when another process has other sequences; throws HandoverFailed. `what`, such as
/// "step 3", begins these messages.
[[nodiscard]] RatedPlan plan_together(const JobAgreement& agreement, const StepPlanner& planner,
                                      std::span<const DocumentSequence> sequences,
                                      std::string_view what, const MakePlan& make);

/// A step that is ready to run.
struct ReadyStep {
  StepBatch batch;
  RatedPlan planned;    ///< in others than the first process plan and schedules alone
  Nanos planning_time;  ///< 0 where nothing was planned
  Nanos waited;         ///< training stood still for it
};

/// Draws and plans one step ahead, on a thread of its own. Processes other than the first draw
/// alone; they receive the plan, checked again, between two steps.
class StepMaker {
 public:
  /// `agreement` outlives this.
  StepMaker(DocumentStream stream, StepPlanner planner, PlannerKind kind,
            const JobAgreement& agreement);
  StepMaker(const StepMaker&) = delete;
  StepMaker& operator=(const StepMaker&) = delete;

  /// Begins with the next step and returns at once. REQUIRES: every step begun was taken.
  void start() { ahead_.start(); }

  /// The step that start() began with; nullopt when it is ready but any process is `out_of_time`.
  /// Throws in all processes what making it threw in one, and Interrupted when one was asked to
  /// stop; throws HandoverFailed. REQUIRES: start() was called for this step.
  [[nodiscard]] std::optional<ReadyStep> take(std::string_view what,
                                              const std::function<bool()>& out_of_time);

  /// A batch planned in line by another planner.
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
  const JobAgreement& agreement_;
  PlanAhead<Made> ahead_;  ///< last: its thread ends before what it uses
};

}  // namespace slimpack
