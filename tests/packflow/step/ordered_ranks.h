// All ranks of a step in the order in which the simulator ends their actions, so that at any time
// the inputs wait that it predicts, whatever the machine is doing.
#pragma once

#include <algorithm>
#include <deque>
#include <memory>
#include <optional>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "slimpack/cost/cost_model.h"
#include "slimpack/packflow/device/memory_tracker.h"
#include "slimpack/packflow/device/rank_threads.h"
#include "slimpack/packflow/layer/exchanged_attention.h"
#include "slimpack/packflow/ranks/thread_world.h"
#include "slimpack/packflow/step/stage_step.h"
#include "slimpack/packflow/step/vocabulary_step.h"
#include "slimpack/trace/timeline.h"
#include "tests/sim/pass_of.h"

namespace slimpack::testing {

/// Ranks are threads; those that an action needs, its tensor-parallel ranks and of a merged
/// MicroPack those of all its replicas, of E, H and G those of the pipeline, of an exchange of
/// attention both, run it together, and nobody runs anything else meanwhile.
class OrderedRanks {
 public:
  /// Runs a plan and its schedules under a cost model, whose `tp` ranks share each stage. All must
  /// outlive this object.
  OrderedRanks(const Costs& cost, const StepPlan& plan, std::span<const Schedule> schedules,
               const StepTokens& tokens)
      : plan_(plan),
        schedules_(schedules),
        grid_{
            plan.layout.ranks(),
            static_cast<std::int32_t>(plan.replicas.size()),
            cost.tp,
            plan.layout.placement,
            plan.layout.spread_vocabulary,
            std::ranges::any_of(schedules, [](const Schedule& s) { return !s.exchanges.empty(); })},
        world_(grid_, kChannelSlots),
        rope_(cost.shape, cost.dtype, *std::ranges::max_element(plan.lengths)),
        ranks_(static_cast<std::size_t>(grid_.ranks())),
        threads_(grid_.ranks(), /*pin=*/false) {
    on_ranks([&](std::int32_t rank) {
      Rank& own = ranks_[static_cast<std::size_t>(rank)];
      const RankPlace place = grid_.place(rank);
      own.clock = std::make_unique<RankClock>(ClockKind::kWall, Nanos(0));
      own.communicator = world_.communicator(rank, *own.clock);
      for (std::int32_t s = place.pipeline; s < grid_.stages(); s += grid_.pipeline)
        own.parameters.push_back(make_stage_parameters(cost.shape, cost.dtype, plan.layout, grid_,
                                                       place, StageId(s), /*seed=*/1));
      const auto& exchanges = schedules[place.replica.index()].exchanges;
      own.inputs.emplace(rank_reader(cost.shape, plan.layout, grid_, place, exchanges,
                                     own.parameters.front().buckets.front().values_N),
                         packs(place.replica), tokens);
      if (grid_.spread_vocabulary)
        own.vocabulary.emplace(cost.shape, grid_, place, own.parameters, *own.inputs,
                               *own.communicator);
      own.exchanges.emplace(exchanges, packs(place.replica), plan.layout, place.pipeline,
                            *own.communicator);
      for (StageParameters& parameters : own.parameters) {
        const auto s =
            static_cast<std::int32_t>(own.stages.size()) * grid_.pipeline + place.pipeline;
        own.stages.emplace_back().step = std::make_unique<StageStep>(
            cost.shape,
            StagePlace{s == 0,
                       s == grid_.stages() - 1,
                       {place.replica, grid_.tensor, place.tensor},
                       grid_.spread_vocabulary,
                       cost.cp_comm_type},
            parameters, rope_, packs(place.replica), plan.lengths, *own.inputs,
            recompute_of_stage(plan, StageId(s)), own.communicator.get());
      }
    });
  }

  /// Runs the spans of a timeline that the simulator has predicted; peak activation bytes of each
  /// rank.
  std::vector<Bytes> run(std::vector<Span> spans) {
    std::erase_if(spans, [](const Span& s) { return !pass_of(s.kind); });
    std::ranges::stable_sort(spans, {}, &Span::end);
    std::vector<Bytes> resident;
    for (std::int32_t r = 0; r < grid_.ranks(); ++r) {
      resident.push_back(live_bytes(r));
      reset_peak(r);
    }
    std::deque<Span> left(spans.begin(), spans.end());
    while (!left.empty()) {
      const std::vector<Span> together = next_together(left);
      if (!ran_ahead_.erase(together.front())) run_together(together);
      deliver(together.front());
      for (std::size_t i = 1; i < together.size(); ++i)
        if (!ran_ahead_.contains(together[i])) deliver(together[i]);
    }
    std::vector<Bytes> peaks;
    for (std::int32_t r = 0; r < grid_.ranks(); ++r) {
      for (const Stage& stage : ranks_[static_cast<std::size_t>(r)].stages)
        stage.step->require_drained();
      peaks.push_back(peak_bytes(r) - resident[static_cast<std::size_t>(r)]);
    }
    return peaks;
  }

 private:
  struct Stage {
    std::unique_ptr<StageStep> step;
    std::deque<at::Tensor> forward_inputs, backward_inputs;
  };
  struct Rank {
    std::unique_ptr<RankClock> clock;
    std::unique_ptr<Communicator> communicator;
    std::vector<StageParameters> parameters;  ///< by stage
    std::optional<StepInputs> inputs;
    std::optional<VocabularyStep> vocabulary;
    std::optional<RankExchanges> exchanges;
    at::Tensor output;  ///< of the action that has run, until it is delivered
    std::deque<Stage> stages;
  };

  struct ByStart {
    bool operator()(const Span& a, const Span& b) const {
      return std::tuple(a.rank, a.start, a.kind) < std::tuple(b.rank, b.start, b.kind);
    }
  };

  [[nodiscard]] const PackPlan& packs(ReplicaId replica) const {
    return plan_.replicas[replica.index()].packs;
  }
  /// The simulator knows no tensor-parallel ranks.
  [[nodiscard]] RankPlace place_of(const Span& span) const {
    return {ReplicaId(span.rank / grid_.pipeline), span.rank % grid_.pipeline};
  }
  [[nodiscard]] std::int32_t stage_of(const Span& span) const { return span.stage.value(); }
  [[nodiscard]] const MicroPack& pack_of(const Span& span) const {
    const PackPlan& own = packs(place_of(span).replica);
    return own.of(*pass_of(span.kind))[span.pack.index()];
  }

  [[nodiscard]] Action action_of(const Span& span) const {
    return {StageId(stage_of(span)), *pass_of(span.kind), span.pack};
  }
  /// The action with which that of the span exchanges attention.
  [[nodiscard]] std::optional<Action> partner_of(const Span& span) const {
    for (const ContextExchange& e : schedules_[place_of(span).replica.index()].exchanges) {
      if (e.giver == action_of(span)) return e.taker;
      if (e.taker == action_of(span)) return e.giver;
    }
    return std::nullopt;
  }

  /// Takes the next span, and the same of the other replicas or ranks where they run it together.
  [[nodiscard]] std::vector<Span> next_together(std::deque<Span>& left) {
    const Span first = left.front();
    std::vector<Span> together{first};
    left.pop_front();
    if (is_joint(*pass_of(first.kind))) {
      std::erase_if(left, [&](const Span& other) {
        const bool same = other.kind == first.kind && other.pack == first.pack &&
                          place_of(other).replica == place_of(first).replica;
        if (same) together.push_back(other);
        return same;
      });
      return together;
    }
    if (ran_ahead_.contains(first)) return together;
    if (const std::optional<Action> partner = partner_of(first)) {
      // The partner's span stays in the list: its rows leave when it ends.
      const auto other = std::ranges::find_if(left, [&](const Span& span) {
        return place_of(span).replica == place_of(first).replica &&
               !is_joint(*pass_of(span.kind)) && action_of(span) == *partner;
      });
      together.push_back(*other);
      ran_ahead_.insert(*other);
      return together;
    }
    if (pack_of(first).replicas == 1 || first.kind == SpanKind::kWeightGradient) return together;
    std::erase_if(left, [&](const Span& other) {
      const bool same = other.kind == first.kind && stage_of(other) == stage_of(first) &&
                        pack_of(other) == pack_of(first);
      if (same) together.push_back(other);
      return same;
    });
    return together;
  }

  void run_together(const std::vector<Span>& spans) {
    on_ranks([&](std::int32_t rank) {
      const RankPlace place = grid_.place(rank);
      for (const Span& span : spans)
        if (place_of(span).replica == place.replica && place_of(span).pipeline == place.pipeline)
          act(rank, span);
    });
  }

  void act_jointly(std::int32_t rank, const Span& span) {
    Rank& own = ranks_[static_cast<std::size_t>(rank)];
    StageStep& last = *own.stages.back().step;
    if (span.kind == SpanKind::kEmbedding)
      own.vocabulary->embed(span.pack);
    else if (span.kind == SpanKind::kHead && last.place().last) {
      static_cast<void>(own.vocabulary->head(span.pack, last.head_inputs(span.pack)));
      last.release_head_inputs(span.pack);
    } else if (span.kind == SpanKind::kHead)
      static_cast<void>(own.vocabulary->head(span.pack, at::Tensor()));
    else
      own.vocabulary->embedding_gradient(span.pack);
  }

  /// The rows that arrive from another stage, or from E or H.
  at::Tensor input_of(std::int32_t rank, const Span& span) {
    Stage& own = stage(rank, stage_of(span));
    const StagePlace place = own.step->place();
    const bool forward = span.kind == SpanKind::kForward;
    if (forward ? !place.first : !place.last)
      return take(forward ? own.forward_inputs : own.backward_inputs);
    if (!place.spread_vocabulary) return {};
    VocabularyStep& vocabulary = *ranks_[static_cast<std::size_t>(rank)].vocabulary;
    return forward ? vocabulary.take_embedded(span.pack) : vocabulary.take_head_gradient(span.pack);
  }

  void act(std::int32_t rank, const Span& span) {
    if (is_joint(*pass_of(span.kind))) return act_jointly(rank, span);
    Stage& own = stage(rank, stage_of(span));
    if (span.kind == SpanKind::kWeightGradient) {
      own.step->weight_gradients(span.pack);
      return;
    }
    const StagePlace place = own.step->place();
    const bool forward = span.kind == SpanKind::kForward;
    at::Tensor rows_TH = input_of(rank, span);
    const AttentionExchange* exchange =
        ranks_[static_cast<std::size_t>(rank)].exchanges->of(action_of(span));
    if (forward)
      rows_TH = own.step->forward(span.pack, std::move(rows_TH), exchange);
    else if (span.kind == SpanKind::kBackward)
      rows_TH = own.step->backward(span.pack, std::move(rows_TH), exchange);
    else
      rows_TH = own.step->input_gradients(span.pack, std::move(rows_TH), exchange);
    if (place.spread_vocabulary && !forward && place.first)
      ranks_[static_cast<std::size_t>(rank)].vocabulary->put_embedding_gradient(span.pack,
                                                                                std::move(rows_TH));
    if (forward ? !place.last : !place.first)
      ranks_[static_cast<std::size_t>(rank)].output = std::move(rows_TH);
  }

  /// Hands the span's output over, if it has one.
  void deliver(const Span& span) {
    const Pass pass = *pass_of(span.kind);
    if (is_joint(pass) || pass == Pass::kWeightGradient) return;
    const std::int32_t to = stage_of(span) + (pass == Pass::kForward ? 1 : -1);
    if (to < 0 || to == grid_.stages()) return;
    RankPlace sender = place_of(span), receiver = sender;
    receiver.pipeline = to % grid_.pipeline;
    for (std::int32_t t = 0; t < grid_.tensor; ++t) {
      sender.tensor = receiver.tensor = t;
      at::Tensor rows_TH = std::move(ranks_[static_cast<std::size_t>(grid_.rank(sender))].output);
      charge_to(rows_TH, grid_.rank(receiver));
      Stage& next = stage(grid_.rank(receiver), to);
      (pass == Pass::kForward ? next.forward_inputs : next.backward_inputs)
          .push_back(std::move(rows_TH));
    }
  }

  Stage& stage(std::int32_t rank, std::int32_t of_model) {
    return ranks_[static_cast<std::size_t>(rank)]
        .stages[static_cast<std::size_t>(of_model / grid_.pipeline)];
  }

  static at::Tensor take(std::deque<at::Tensor>& queue) {
    at::Tensor first = std::move(queue.front());
    queue.pop_front();
    return first;
  }

  template <class Work>
  void on_ranks(Work work) {
    threads_.run([&](std::int32_t rank) {
      try {
        work(rank);
      } catch (...) {
        world_.fail(std::current_exception());
      }
    });
    if (world_.cause()) std::rethrow_exception(world_.cause());
  }

  const StepPlan& plan_;
  std::span<const Schedule> schedules_;
  RankGrid grid_;
  ThreadWorld world_;
  Rope rope_;
  /// Their partners in an exchange ended first and ran them, too.
  std::set<Span, ByStart> ran_ahead_;
  std::vector<Rank> ranks_;
  RankThreads threads_;
};

}  // namespace slimpack::testing
