// A training run for people at a terminal.
#pragma once

#include <cstdio>
#include <memory>
#include <string>

#include "slimpack/base/progress.h"
#include "slimpack/packflow/ranks/world.h"
#include "slimpack/training/train.h"
#include "slimpack/training/training_listener.h"

namespace slimpack {

/// "step  3/20  loss 5.1234  …", as much of it as fits into `columns`.
[[nodiscard]] std::string step_line(const StepFigures& figures, const StepPlace& place,
                                    int columns);

/// Writes a line of everything that it is told, no longer than a terminal is wide.
class Console final : public TrainingListener {
 public:
  /// Does not own `out`, which must outlive this.
  explicit Console(std::FILE* out) : out_(out) {}

  void note(std::string_view topic, const std::string& text) override;
  void tokens_checked(const std::filesystem::path& prefix, Tokens checked, Tokens all) override;
  void step(const StepFigures& figures, const StepPlace& place) override;
  void evaluation(const EvaluationFigures& figures) override;

 private:
  /// A check of tokens that is under way.
  struct Check {
    Nanos start;
    Tokens checked;
    Progress progress;
  };

  std::FILE* out_;
  std::unique_ptr<Check> check_;
};

/// train() with its progress on stderr and its summary on stdout. SIGINT and SIGTERM stop the run
/// after what it does just now, a second SIGINT at once. Throws Interrupted where SIGINT has
/// stopped it; SIGTERM comes from a scheduler, for which a run that has saved what it did has ended
/// well.
void train_at_console(const TrainRequest& request, JobProcess* process = nullptr);

}  // namespace slimpack
