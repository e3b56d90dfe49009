#include "slimpack/packflow/rank_step.h"

#include <cmath>
#include <utility>

#include "slimpack/base/error.h"
#include "slimpack/base/progress.h"
#include "slimpack/packflow/memory_tracker.h"
#include "slimpack/packflow/optimizer.h"

namespace slimpack {
namespace {

/// Every rank knows the norm of the whole model, so that none updates its weights.
void require_finite(double gradient_norm) {
  if (std::isfinite(gradient_norm)) return;
  invalid_input(
      "the gradient norm is {}: training has diverged; lower train.learning_rate or raise "
      "train.warmup_steps",
      std::isnan(gradient_norm) ? "not a number" : "infinite");
}

class RankRunner {
 public:
  explicit RankRunner(const RankStep& rank) : rank_(rank), place_(rank.tensors.place()) {
    result_.spans.reserve(4 * rank.actions.size() + 4);
  }

  RankResult run() {
    for (const Action& action : rank_.actions) {
      if (rank_.options.should_stop && rank_.options.should_stop())
        throw Interrupted("stopped on request between two actions of a step");
      run_action(action);
    }
    rank_.tensors.require_drained();
    result_.peak_activation = peak_bytes(rank_.stage.value()) - rank_.resident;
    finish();
    return std::move(result_);
  }

 private:
  /// Runs `work` and records it.
  template <class Work>
  auto timed(SpanKind kind, PackId pack, Work work) {
    const Nanos begin = now();
    auto value = work();
    result_.spans.push_back({rank_.stage.value(), kind, pack, begin, now()});
    return value;
  }

  void run_action(const Action& action) {
    const bool forward = action.pass == Pass::kForward;
    const Direction direction = forward ? Direction::kForward : Direction::kBackward;
    const bool alone = action.pass == Pass::kWeightGradient;  // needs no other stage
    const bool has_input = !alone && !(forward ? place_.first : place_.last);
    const bool has_output = !alone && !(forward ? place_.last : place_.first);
    at::Tensor rows_TH;
    if (has_input)
      rows_TH = timed(SpanKind::kWaitReceive, action.pack,
                      [&] { return rank_.communicator.receive(direction); });
    rows_TH = compute(action, std::move(rows_TH));
    result_.memory.push_back(
        {rank_.stage.value(), now(), live_bytes(rank_.stage.value()) - rank_.resident});
    if (has_output)
      timed(SpanKind::kWaitSend, action.pack, [&] {
        rank_.communicator.send(direction, std::move(rows_TH));
        return 0;
      });
  }

  /// From what the action receives to what it sends.
  at::Tensor compute(const Action& action, at::Tensor rows_TH) {
    StageStep& tensors = rank_.tensors;
    switch (action.pass) {
      case Pass::kForward:
        return timed(SpanKind::kForward, action.pack,
                     [&] { return tensors.forward(action.pack, std::move(rows_TH)); });
      case Pass::kBackward:
        return timed(SpanKind::kBackward, action.pack,
                     [&] { return tensors.backward(action.pack, std::move(rows_TH)); });
      case Pass::kInputGradient:
        return timed(SpanKind::kInputGradient, action.pack,
                     [&] { return tensors.input_gradients(action.pack, std::move(rows_TH)); });
      case Pass::kWeightGradient:
        return timed(SpanKind::kWeightGradient, action.pack, [&] {
          tensors.weight_gradients(action.pack);
          return at::Tensor();
        });
    }
    return {};
  }

  /// Sums the loss and the gradient norm over ranks, which also waits for all of them; updates.
  void finish() {
    const bool tied = rank_.options.shape.tie_embeddings && !(place_.first && place_.last);
    if (tied && (place_.first || place_.last)) {
      Parameter& p = place_.first ? rank_.parameters.embedding_VH : rank_.parameters.head_VH;
      timed(SpanKind::kReduce, PackId(-1),
            [&] { return rank_.communicator.sum_tied(p.gradient), 0; });
    }
    const double squares = timed(SpanKind::kOptimizer, PackId(-1),
                                 [&] { return squared_gradient_norm(rank_.parameters); });
    timed(SpanKind::kWaitReceive, PackId(-1), [&] {
      result_.loss_sum = rank_.communicator.sum(rank_.tensors.loss_sum());
      result_.gradient_norm = std::sqrt(rank_.communicator.sum(squares));
      return 0;
    });
    if (!rank_.update) return;
    require_finite(result_.gradient_norm);
    timed(SpanKind::kOptimizer, PackId(-1), [&] {
      const TrainConfig& config = rank_.update->config;
      adamw_update(rank_.parameters, config, rank_.update->step,
                   clip_factor(result_.gradient_norm, config.clip_norm));
      return 0;
    });
  }

  [[nodiscard]] Nanos now() const { return monotonic_now() - rank_.start; }

  const RankStep& rank_;
  StagePlace place_;
  RankResult result_;
};

}  // namespace

RankResult run_rank(const RankStep& rank) {
  return RankRunner(rank).run();
}

}  // namespace slimpack
