// Planning one step ahead: while a step trains, the next one is drawn and planned.
#pragma once

#include <chrono>
#include <functional>
#include <future>
#include <utility>

#include "slimpack/base/error.h"
#include "slimpack/base/progress.h"
#include "slimpack/base/units.h"

namespace slimpack {

/// Makes steps ready in the background, one at a time. Results are those of calling `prepare` in
/// line; only the time differs. `Step` is whatever `prepare` returns. One thread uses an object.
template <class Step>
class PlanAhead {
 public:
  struct Taken {
    Step step;
    Nanos waited;  ///< from the call of take() until the step was ready
  };

  /// `prepare` makes the next step ready at each call. Calls never overlap, and each sees what the
  /// one before left behind; but they run on another thread, so between start() and take() nobody
  /// else writes what `prepare` reads, or touches what it writes.
  explicit PlanAhead(std::function<Step()> prepare) : prepare_(std::move(prepare)) {}

  /// Waits for a step that is being prepared: that cannot be broken off. Its result or error is
  /// dropped.
  ~PlanAhead() = default;
  PlanAhead(const PlanAhead&) = delete;
  PlanAhead& operator=(const PlanAhead&) = delete;

  /// Begins with the next step and returns at once. REQUIRES: no step is waiting to be taken.
  void start() {
    SLIMPACK_CHECK(!next_.valid(), "a step is being prepared already");
    next_ = std::async(std::launch::async, std::cref(prepare_));
  }

  /// Waits at most so long; whether take() would return at once. REQUIRES: as take().
  [[nodiscard]] bool ready_within(std::chrono::milliseconds wait) const {
    SLIMPACK_CHECK(next_.valid(), "no step is being prepared");
    return next_.wait_for(wait) == std::future_status::ready;
  }

  /// The step that start() began with; waits until it is ready. What `prepare` threw is thrown
  /// here; start() may be called again after that. REQUIRES: start() was called for this step.
  [[nodiscard]] Taken take() {
    SLIMPACK_CHECK(next_.valid(), "no step is being prepared");
    const Nanos start = monotonic_now();
    next_.wait();
    const Nanos waited = monotonic_now() - start;
    return {next_.get(), waited};
  }

 private:
  std::function<Step()> prepare_;
  std::future<Step> next_;  ///< of std::async, whose destructor joins the thread
};

}  // namespace slimpack
