// Shows a training run to people at a terminal, and catches the signals with which they stop it.
#pragma once

#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "slimpack/base/progress.h"
#include "slimpack/packflow/ranks/world.h"
#include "slimpack/training/train.h"
#include "slimpack/training/training_listener.h"

namespace slimpack {

/// From now on SIGINT and SIGTERM only ask for a stop. A second SIGINT ends the process at once.
void catch_stop_signals();

/// The signal that asked for a stop; 0 = none. Any thread may call it.
[[nodiscard]] int stop_signal();

/// A line on what is measured of the machine, for a part after the other.
class MeasuringLine {
 public:
  /// Does not own `out`, which must outlive this.
  explicit MeasuringLine(std::FILE* out) : out_(out) {}

  /// See ProfileOptions::on_run.
  void tell(std::string_view part, std::int64_t done, std::int64_t all);

 private:
  std::FILE* out_;
  Nanos start_;
  std::optional<Progress> line_;
};

/// Writes a line for each call, fitted to the terminal's width.
class Console final : public TrainingListener {
 public:
  /// Does not own `out`, which must outlive this.
  explicit Console(std::FILE* out) : out_(out), measuring_(out) {}

  void note(std::string_view topic, const std::string& text) override;
  void tokens_checked(const std::filesystem::path& prefix, Tokens checked, Tokens all) override;
  void measuring(std::string_view part, std::int64_t done, std::int64_t all) override {
    measuring_.tell(part, done, all);
  }
  void step(const StepFigures& figures, const StepPlace& place) override;
  void evaluation(const EvaluationFigures& figures) override;

 private:
  /// A running check of tokens.
  struct Check {
    Nanos start;
    Tokens checked;
    Progress progress;
  };

  std::FILE* out_;
  MeasuringLine measuring_;
  std::unique_ptr<Check> check_;
};

/// train() with its progress on stderr and its summary on stdout. SIGINT and SIGTERM ask the run to
/// stop and save; a second SIGINT ends the process at once. Throws Interrupted if SIGINT stopped
/// the run. After SIGTERM it returns as usual: SIGTERM comes from a scheduler, and a saved run has
/// ended well.
void train_at_console(const TrainRequest& request, JobProcess* process = nullptr);

}  // namespace slimpack
