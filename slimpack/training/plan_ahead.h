// Planning one step ahead: while a step trains, the next one is drawn and planned.
#pragma once

#include <chrono>
#include <functional>
#include <future>
#include <utility>

#include "slimpack/base/error.h"
#include "slimpack/base/progress.h"
#include "slimpack/base/threads.h"
#include "slimpack/base/units.h"

namespace slimpack {

/// Prepares steps in the background, one at a time. The results are the same as without it; they
/// are only ready earlier. `Step` is whatever `prepare` returns. One thread uses an object.
template <class Step>
class PlanAhead {
 public:
  struct Taken {
    Step step;
    Nanos waited;  ///< from the call of take() until the step was ready
  };

  /// `prepare` prepares the next step at each call. Calls never overlap, and each sees what the
  /// call before has written. They run on another thread. So between start() and take() nobody else
  /// may write what `prepare` reads, or touch what it writes.
  explicit PlanAhead(std::function<Step()> prepare) : prepare_(std::move(prepare)) {}

  /// Waits for a step that is being prepared, because a call cannot be interrupted. Its result or
  /// error is dropped.
  ~PlanAhead() = default;
  PlanAhead(const PlanAhead&) = delete;
  PlanAhead& operator=(const PlanAhead&) = delete;

  /// Begins to prepare the next step and returns at once. Throws RunFailed where the system has no
  /// thread left. REQUIRES: no step is waiting to be taken.
  void start() {
    SLIMPACK_CHECK(!next_.valid(), "a step is being prepared already");
    next_ = started("preparing the next step",
                    [this] { return std::async(std::launch::async, std::cref(prepare_)); });
  }

  /// Waits no longer than `wait`. Result: whether take() would return at once. REQUIRES: as take().
  [[nodiscard]] bool ready_within(std::chrono::milliseconds wait) const {
    SLIMPACK_CHECK(next_.valid(), "no step is being prepared");
    return next_.wait_for(wait) == std::future_status::ready;
  }

  /// The step that start() began; waits until it is ready. Throws what `prepare` threw; start() may
  /// be called again after that. REQUIRES: start() was called for this step.
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
