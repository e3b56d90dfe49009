#include "slimpack/packflow/step/rank_step.h"

#include <ATen/ops/full.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "slimpack/base/error.h"
#include "slimpack/packflow/device/memory_tracker.h"
#include "slimpack/packflow/device/tensor.h"
#include "slimpack/packflow/layer/exchanged_attention.h"
#include "slimpack/packflow/parameters/optimizer.h"
#include "slimpack/packflow/step/step_record.h"
#include "slimpack/plan/row_share.h"

namespace slimpack {
namespace {

/// Σ of what all ranks found in their shards, in the order of the shards: so it has the same bits
/// whichever ranks own them.
double sum_by_shards(double own, const RankGrid& grid, Gathering& world) {
  const std::vector<at::Tensor> of_rank = world.all_gather(at::full({1}, own, at::kDouble));
  double total = 0;
  for (std::int32_t place = 0; place < grid.replicas; ++place)
    for (std::int32_t p = 0; p < grid.pipeline; ++p)
      for (std::int32_t t = 0; t < grid.tensor; ++t) {
        const std::int32_t rank = grid.rank({grid.shard_owner(place), p, t});
        total += of_rank[static_cast<std::size_t>(rank)].item<double>();
      }
  return total;
}

class RankRunner {
 public:
  explicit RankRunner(const RankStep& rank)
      : rank_(rank),
        grid_(rank.options.grid()),
        record_(rank.rank, grid_.placement.stage(grid_.place(rank.rank).pipeline, 0), rank.clock,
                RankMemory(rank.options.device, tracked_rank()), rank.resident,
                rank.instructions.size() + 4),
        exchanges_(rank.exchanges, rank.packs, rank.options.layout, grid_.place(rank.rank).pipeline,
                   rank.communicator) {
    for (auto s = static_cast<std::int32_t>(rank.parameters.size()); s-- > 0;)
      for (const ParameterBucket& bucket : rank.parameters[static_cast<std::size_t>(s)].buckets)
        buckets_.push_back(&bucket);
  }

  RankResult run() {
    const auto last = std::ranges::find(rank_.instructions.rbegin(), rank_.instructions.rend(),
                                        Operation::kCompute, &Instruction::operation);
    for (const Instruction& i : rank_.instructions)
      run_instruction(i, [&] { compute(i.action, &i == &*last); });
    require_drained();
    record_.end_actions();
    finish();
    record_.read(result_, rank_.communicator.waited_inputs());
    // The result is asked for only now, so that the host does not wait for the device before the
    // step's last reductions.
    if (finite_.defined() && !finite_.item<bool>()) result_.update = UpdateOutcome::kNotFinite;
    return std::move(result_);
  }

  double evaluate() {
    for (const Instruction& i : rank_.instructions)
      if (runs_forward_packs(i.action.pass) || i.action.pass == Pass::kHead)
        run_instruction(i, [&] { evaluate(i.action); });
    require_drained();
    return rank_.communicator.world().gathering().sum(rank_.stages.back().loss_sum());
  }

 private:
  [[nodiscard]] bool forward(const Action& action) const { return action.pass == Pass::kForward; }
  /// Where the action's input arrives, and where its output goes.
  [[nodiscard]] Inbox own_inbox(const Action& action) const {
    return {forward(action) ? Direction::kForward : Direction::kBackward, action.stage};
  }
  [[nodiscard]] Inbox next_inbox(const Action& action) const {
    const std::int32_t step = forward(action) ? 1 : -1;
    return {own_inbox(action).direction, StageId(action.stage.value() + step)};
  }
  [[nodiscard]] std::int32_t local_stage(const Action& action) const {
    return grid_.placement.local_stage(action.stage);
  }
  [[nodiscard]] StageStep& stage_of(const Action& action) const {
    return rank_.stages[static_cast<std::size_t>(local_stage(action))];
  }
  [[nodiscard]] bool first() const { return rank_.stages.front().place().first; }
  [[nodiscard]] bool last() const { return rank_.stages.back().place().last; }
  void require_drained() const {
    for (const StageStep& stage : rank_.stages) stage.require_drained();
    SLIMPACK_CHECK(handed_on_.empty(), "rows wait for another stage of the rank");
    SLIMPACK_CHECK(rank_.vocabulary == nullptr || rank_.vocabulary->empty(),
                   "hidden states wait for embedding or head");
  }
  [[nodiscard]] const MicroPack& pack_of(const Action& action) const {
    return rank_.packs.of(action.pass)[action.pack.index()];
  }
  [[nodiscard]] std::size_t stages() const { return static_cast<std::size_t>(grid_.stages()); }

  /// The form of a message from the neighbouring stage: the rows whose hidden states the rank
  /// holds.
  [[nodiscard]] MessageForm form_of(const MicroPack& pack) const {
    const RowHolder holder = rank_.stages.front().place().holder;
    const PackShare held(pack, holder.replica);
    return {held.hidden(holder.tensor, holder.index).rows().count(),
            rank_.options.shape.hidden_size(),
            at::dtype(compute_type(rank_.options.dtype)).device(rank_.options.device)};
  }

  /// `work` runs an action on rows_TH_.
  template <class Work>
  void run_instruction(const Instruction& i, Work work) {
    switch (i.operation) {
      case Operation::kReceive:
        return rank_.communicator.post_receive(own_inbox(i.action), form_of(pack_of(i.action)));
      case Operation::kCompute:
        return run_action(i.action, std::move(work));
      case Operation::kSend:
        return timed(SpanKind::kWaitSend, i.action,
                     [&] { rank_.communicator.send(next_inbox(i.action), std::move(rows_TH_)); });
    }
  }

  /// Waits for the action's input and runs it.
  template <class Work>
  void run_action(const Action& action, Work work) {
    if (rank_.options.hooks.before_action) rank_.options.hooks.before_action();
    // Actions that wait for nobody would otherwise run to the end of the step.
    rank_.communicator.require_peers();
    take_input(action);
    await_others(action);
    take_from_vocabulary(action);
    record_.begin_action();
    work();
    give_to_vocabulary(action);
    leave_output(action);
    record_.end_action();
  }

  [[nodiscard]] bool here(StageId stage) const {
    return grid_.placement.rank_of(stage) == grid_.place(rank_.rank).pipeline;
  }
  /// Takes what a stage of this rank has left, or waits for the message.
  void take_input(const Action& action) {
    const std::optional<StageId> source = source_stage(action, stages());
    if (!source) return;
    if (here(*source))
      rows_TH_ = std::move(
          handed_on_.extract({action.stage, message_pass(action.pass), action.pack}).mapped());
    else
      timed(SpanKind::kWaitReceive, action,
            [&] { rows_TH_ = rank_.communicator.receive(own_inbox(action)); });
  }
  /// An output for another rank stays in rows_TH_ until its send.
  void leave_output(const Action& action) {
    const std::optional<StageId> target = target_stage(action, stages());
    if (target && here(*target))
      handed_on_.emplace(Action{*target, message_pass(action.pass), action.pack},
                         std::move(rows_TH_));
    if (!target || here(*target)) rows_TH_ = at::Tensor();
  }

  /// The first and the last stage, where the vocabulary is spread.
  [[nodiscard]] bool on_spread_first(const Action& action) const {
    return rank_.vocabulary != nullptr && action.stage.value() == 0;
  }
  [[nodiscard]] bool on_spread_last(const Action& action) const {
    return rank_.vocabulary != nullptr && action.stage.index() + 1 == stages();
  }

  /// An input that E or H has made.
  void take_from_vocabulary(const Action& action) {
    if (forward(action) && on_spread_first(action))
      rows_TH_ = rank_.vocabulary->take_embedded(action.pack);
    if (goes_back(action.pass) && on_spread_last(action))
      rows_TH_ = rank_.vocabulary->take_head_gradient(action.pack);
  }
  /// An output that G needs.
  void give_to_vocabulary(const Action& action) {
    if (goes_back(action.pass) && on_spread_first(action))
      rank_.vocabulary->put_embedding_gradient(action.pack, std::move(rows_TH_));
  }

  /// Runs `head` on its inputs, which lie with the last stage's rank and elsewhere are undefined.
  template <class Head>
  void run_head(PackId backward, Head head) {
    if (!last()) {
      static_cast<void>(head(at::Tensor()));
      return;
    }
    StageStep& stage = rank_.stages.back();
    stage.add_loss(head(stage.head_inputs(backward)));
    stage.release_head_inputs(backward);
  }

  /// Runs E, H or G.
  void compute_joint(const Action& action) {
    VocabularyStep& vocabulary = *rank_.vocabulary;
    if (action.pass == Pass::kEmbedding)
      timed(SpanKind::kEmbedding, action, [&] { vocabulary.embed(action.pack); });
    else if (action.pass == Pass::kHead)
      timed(SpanKind::kHead, action, [&] {
        run_head(action.pack,
                 [&](const at::Tensor& x_TH) { return vocabulary.head(action.pack, x_TH); });
      });
    else
      timed(SpanKind::kEmbeddingGradient, action,
            [&] { vocabulary.embedding_gradient(action.pack); });
  }

  void evaluate(const Action& action) {
    if (forward(action))
      rows_TH_ = stage_of(action).evaluate(action.pack, std::move(rows_TH_));
    else if (action.pass == Pass::kEmbedding)
      rank_.vocabulary->embed(action.pack);
    else
      run_head(action.pack, [&](const at::Tensor& x_TH) {
        return rank_.vocabulary->head_loss(action.pack, x_TH);
      });
  }

  /// Replicas that run a merged MicroPack begin together, and so do ranks that run E, H or G, and
  /// two that exchange attention.
  void await_others(const Action& action) {
    if (is_joint(action.pass))
      return timed(SpanKind::kWaitReceive, action,
                   [&] { rank_.communicator.vocabulary().barrier(); });
    if (const AttentionExchange* exchange = exchanges_.of(action))
      return timed(SpanKind::kWaitReceive, action,
                   [&] { exchange->pipeline.barrier_with(exchange->peer, rank_.options.device); });
    const std::int32_t replicas = pack_of(action).replicas;
    if (replicas > 1 && action.pass != Pass::kWeightGradient)
      timed(SpanKind::kWaitReceive, action,
            [&] { rank_.communicator.context(replicas).barrier(); });
  }

  /// Records `work` of an action.
  template <class Work>
  void timed(SpanKind kind, const Action& action, Work work) {
    record_.timed(kind, action.pack, action.stage, std::move(work));
  }

  /// Whether the action's layers send something to other stages or to other replicas.
  [[nodiscard]] bool sends(const Action& action) const {
    if (target_stage(action, stages())) return true;
    return action.pass == Pass::kBackward && pack_of(action).replicas > 1;
  }

  /// The step's last action completes the gradients, layer by layer. Their sums begin meanwhile if
  /// the action sends nothing. A device that synchronises waits for other replicas from then on,
  /// and these may wait for what this rank has to send: replicas that run this MicroPack together
  /// may have another one after it.
  void compute(const Action& action, bool last) {
    StageStep& stage = stage_of(action);
    BucketsComplete complete;
    if (last && !sends(action))
      complete = [&, before = buckets_before(local_stage(action))](std::size_t buckets) {
        start_reductions(before + buckets);
      };
    switch (action.pass) {
      case Pass::kForward:
        return timed(SpanKind::kForward, action, [&] {
          rows_TH_ = stage.forward(action.pack, std::move(rows_TH_), exchanges_.of(action));
        });
      case Pass::kBackward:
        return timed(SpanKind::kBackward, action, [&] {
          rows_TH_ =
              stage.backward(action.pack, std::move(rows_TH_), exchanges_.of(action), complete);
        });
      case Pass::kInputGradient:
        return timed(SpanKind::kInputGradient, action, [&] {
          rows_TH_ = stage.input_gradients(action.pack, std::move(rows_TH_), exchanges_.of(action));
        });
      case Pass::kWeightGradient:
        return timed(SpanKind::kWeightGradient, action,
                     [&] { stage.weight_gradients(action.pack, complete); });
      case Pass::kEmbedding:
      case Pass::kHead:
      case Pass::kEmbeddingGradient:
        return compute_joint(action);
    }
  }

  /// Sums the gradients of parameters that several tensor-parallel ranks hold. Each rank has a
  /// part: of norms from its rows or heads, of shared keys and values from its queries.
  void sum_copies(const ParameterBucket& bucket) {
    Collective& tensor = rank_.communicator.tensor();
    if (tensor.size() == 1) return;
    for (const ParameterBucket::Stretch& stretch : bucket.stretches)
      if (stretch.copies > 1)
        sum_among(tensor, stretch.copies,
                  bucket.gradients_N.narrow(0, stretch.begin, stretch.end - stretch.begin));
  }

  /// Sums `part` over the `copies` neighbouring members that include this one.
  static void sum_among(Collective& group, std::int32_t copies, const at::Tensor& part) {
    const std::vector<at::Tensor> all = group.gathering().all_gather(part.clone());
    const std::int32_t first = group.index() - group.index() % copies;
    part.copy_(all[static_cast<std::size_t>(first)]);
    for (std::int32_t m = first + 1; m < first + copies; ++m)
      part.add_(all[static_cast<std::size_t>(m)]);
  }

  /// All replicas reduce a rank's stages from the last to the first.
  [[nodiscard]] std::size_t buckets_before(std::int32_t local_stage) const {
    std::size_t count = 0;
    for (const StageParameters& later :
         rank_.parameters.subspan(static_cast<std::size_t>(local_stage) + 1))
      count += later.buckets.size();
    return count;
  }

  /// Begins to reduce those of the first `end` buckets that are not under way.
  void start_reductions(std::size_t end) {
    Collective& data = rank_.communicator.data();
    for (; reducing_ < end; ++reducing_) {
      const ParameterBucket& bucket = *buckets_[reducing_];
      sum_copies(bucket);
      if (data.size() > 1) data.shards().start_reduce_scatter(bucket.gradients_N);
    }
  }

  /// Leaves the sums over all replicas in this one's shards.
  void reduce_gradients() {
    // Most are under way if the last action sent nothing.
    record_.timed(SpanKind::kReduce, [&] { start_reductions(buckets_.size()); });
    Collective& data = rank_.communicator.data();
    if (data.size() == 1) return;
    for (std::size_t b = 0; b < buckets_.size(); ++b) {
      record_.timed(SpanKind::kWaitReceive, [&] { data.shards().await_reduce_scatter(); });
      record_.timed(SpanKind::kReduce, [&] { data.shards().finish_reduce_scatter(); });
    }
  }

  /// This replica's shard of the gradient of a matrix that has a bucket of its own.
  static at::Tensor own_gradient(const StageParameters& stage, const Parameter& matrix) {
    const ParameterBucket& bucket = stage.buckets[matrix.bucket];
    return bucket.shard.of(bucket.gradients_N);
  }

  /// Adds up the two gradients of a tied matrix that stands on two stages, of two ranks or of one.
  void add_tied_gradients() {
    if (!rank_.options.shape.tie_embeddings || rank_.vocabulary != nullptr || stages() == 1) return;
    at::Tensor embedding_S, head_S;
    if (first())
      embedding_S = own_gradient(rank_.parameters.front(), rank_.parameters.front().embedding_VH);
    if (last()) head_S = own_gradient(rank_.parameters.back(), rank_.parameters.back().head_VH);
    record_.timed(SpanKind::kReduce, [&] {
      if (first() && last())
        head_S.copy_(embedding_S.add_(head_S));
      else if (first() || last())
        rank_.communicator.tied().shards().all_reduce(first() ? embedding_S : head_S);
    });
  }

  /// Sums gradients and loss over all ranks, which is also a barrier, and updates.
  void finish() {
    reduce_gradients();
    add_tied_gradients();
    double squares = 0;
    record_.timed(SpanKind::kOptimizer, [&] { squares = squared_gradient_norm(rank_.parameters); });
    record_.timed(SpanKind::kWaitReceive, [&] {
      Collective& world = rank_.communicator.world();
      result_.loss_sum = world.gathering().sum(rank_.stages.back().loss_sum());
      result_.gradient_norm = std::sqrt(sum_by_shards(squares, grid_, world.gathering()));
    });
    if (!rank_.update) return;
    const TrainConfig& config = rank_.update->config;
    const double scale = clip_factor(result_.gradient_norm, config.clip_norm);
    // Every rank knows the norm of the whole model, so every rank refuses the update.
    if (!usable_norm(result_.gradient_norm * scale, accumulate_type(rank_.options.dtype))) {
      result_.update = UpdateOutcome::kRefused;
      return;
    }
    record_.timed(SpanKind::kOptimizer, [&] {
      adamw_update(rank_.parameters, config, rank_.update->step, scale);
      finite_ = finite_values(rank_.parameters);
    });
    result_.update = UpdateOutcome::kMade;
    Collective& data = rank_.communicator.data();
    if (data.size() == 1) return;
    record_.timed(SpanKind::kReduce, [&] {
      for (StageParameters& stage : rank_.parameters)
        for (ParameterBucket& bucket : stage.buckets)
          data.shards().all_gather_shards(bucket.values_N);
    });
  }

  const RankStep& rank_;
  RankGrid grid_;
  StepRecord record_;
  RankExchanges exchanges_;
  RankResult result_;
  at::Tensor finite_;                            ///< whether the updated parameters are
  at::Tensor rows_TH_;                           ///< input, then output of the action that runs
  std::map<Action, at::Tensor> handed_on_;       ///< by the action of this rank that takes the rows
  std::vector<const ParameterBucket*> buckets_;  ///< in the order of their reduction
  std::size_t reducing_ = 0;                     ///< of these, how many reductions have begun
};

}  // namespace

RankResult run_rank(const RankStep& rank) {
  return RankRunner(rank).run();
}

double evaluate_rank(const RankStep& rank) {
  return RankRunner(rank).evaluate();
}

}  // namespace slimpack
