#include "python/native/train_in_python.h"

#include <nanobind/stl/string.h>

#include <atomic>
#include <cstdio>
#include <memory>
#include <optional>
#include <thread>

#include "slimpack/packflow/device/memory_tracker.h"
#include "slimpack/training/console.h"

namespace nb = nanobind;

namespace slimpack {
namespace {

nb::dict to_dict(const StepFigures& f) {
  nb::dict figures;
  figures["step"] = f.step;
  figures["loss"] = f.loss;
  figures["gradient_norm"] = f.gradient_norm;
  figures["learning_rate"] = f.learning_rate;
  figures["documents"] = f.documents;
  figures["tokens"] = f.tokens.count();
  figures["targets"] = f.targets;
  if (f.mfu) figures["mfu"] = *f.mfu;
  figures["tokens_per_second"] = f.tokens_per_second();
  figures["seconds"] = to_seconds(f.step_time);
  figures["predicted_seconds"] = to_seconds(f.predicted_time);
  figures["bubble"] = f.bubble;
  figures["predicted_bubble"] = f.predicted_bubble;
  figures["peak_activation_bytes"] = largest(f.peak_activation).count();
  return figures;
}

nb::dict to_dict(const EvaluationFigures& f) {
  nb::dict figures;
  figures["step"] = f.step;
  if (!f.result.name.empty()) figures["name"] = f.result.name;
  figures["loss"] = f.result.loss;
  figures["documents"] = f.result.documents;
  figures["tokens"] = f.result.tokens.count();
  return figures;
}

/// Calls Python; what that raises ends the run.
class PythonListener final : public TrainingListener {
 public:
  PythonListener(const nb::object& on_step, const nb::object& on_evaluation)
      : on_step_(on_step), on_evaluation_(on_evaluation) {}

  void step(const StepFigures& figures, const StepPlace& /*place*/) override {
    tell(on_step_, figures);
  }
  void evaluation(const EvaluationFigures& figures) override { tell(on_evaluation_, figures); }

 private:
  template <class Figures>
  void tell(const nb::object& callback, const Figures& figures) {
    const nb::gil_scoped_acquire lock;
    if (!callback.is_none()) callback(to_dict(figures));
  }

  const nb::object& on_step_;
  const nb::object& on_evaluation_;
};

/// Python's signal handlers, which run on its main thread only.
class PythonSignals {
 public:
  /// Whether a handler has raised something.
  [[nodiscard]] bool raised() {
    if (std::this_thread::get_id() != main_) return stop_;
    const nb::gil_scoped_acquire lock;
    if (!stop_ && PyErr_CheckSignals() != 0) {
      raised_.emplace();
      stop_ = true;
    }
    return stop_;
  }
  void rethrow() const {
    if (raised_) throw nb::python_error(*raised_);
  }

 private:
  std::thread::id main_ = std::this_thread::get_id();
  std::atomic<bool> stop_{false};
  std::optional<nb::python_error> raised_;  ///< holds the error, which is cleared in Python
};

const char* to_string(TrainingResult::End end) {
  switch (end) {
    case TrainingResult::End::kDone:
      return "done";
    case TrainingResult::End::kLimit:
      return "limit";
    case TrainingResult::End::kStopped:
      return "stopped";
  }
  return "";
}

nb::dict to_dict(const TrainingResult& result) {
  nb::list steps;
  nb::list evaluations;
  nb::list written;
  if (result.summary) {
    for (const StepFigures& step : result.summary->steps) steps.append(to_dict(step));
    for (const EvaluationFigures& e : result.summary->evaluations) evaluations.append(to_dict(e));
    for (const auto& path : result.summary->written) written.append(path.string());
  }
  nb::dict dict;
  dict["end"] = to_string(result.end);
  dict["message"] = result.message;
  dict["steps"] = steps;
  dict["evaluations"] = evaluations;
  dict["written"] = written;
  return dict;
}

}  // namespace

nb::dict train_in_python(const TrainRequest& request, const nb::object& on_step,
                         const nb::object& on_evaluation) {
  install_memory_tracker();
  std::unique_ptr<TrainingListener> listener;
  if (on_step.is_none() && on_evaluation.is_none())
    listener = std::make_unique<Console>(stderr);
  else
    listener = std::make_unique<PythonListener>(on_step, on_evaluation);
  PythonSignals signals;
  TrainingResult result;
  {
    const nb::gil_scoped_release unlocked;
    result = train(request, *listener, [&] { return signals.raised(); });
  }
  signals.rethrow();
  return to_dict(result);
}

}  // namespace slimpack
