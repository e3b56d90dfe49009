#include "tests/operators/operator_steps.h"

#include <mutex>
#include <thread>
#include <utility>

#include "slimpack/base/random.h"
#include "slimpack/packflow/device/memory_tracker.h"
#include "slimpack/packflow/step/engine.h"
#include "slimpack/schedule/lowered_schedule.h"
#include "tests/packflow/support/mail_processes.h"

namespace slimpack {
namespace {

PackPlan packs_of(const OperatorCase& c) {
  PackPlan packs;
  if (c.sliced) {
    MicroPack first, second;
    for (std::int64_t d = 0; d < c.documents; ++d) {
      const SequenceId document(static_cast<std::int32_t>(d));
      first.slices.push_back({document, Tokens(0), c.lengths[0]});
      second.slices.push_back({document, c.lengths[0], c.lengths[0] + c.lengths[1]});
    }
    return {{first, second}, {second, first}};
  }
  std::int32_t document = 0;
  for (const Tokens length : c.lengths) {
    MicroPack& pack = packs.forward.emplace_back();
    for (std::int64_t d = 0; d < c.documents; ++d)
      pack.slices.push_back({SequenceId(document++), Tokens(0), length});
  }
  packs.backward = packs.forward;
  return packs;
}

SequenceLengths sequences_of(const OperatorCase& c) {
  const auto documents = static_cast<std::size_t>(c.documents);
  if (c.sliced) return SequenceLengths(documents, c.lengths[0] + c.lengths[1]);
  SequenceLengths lengths;
  for (const Tokens length : c.lengths) lengths.insert(lengths.end(), documents, length);
  return lengths;
}

StepPlan plan_of(const OperatorCase& c, std::int64_t layers) {
  StepPlan plan{sequences_of(c), {}, {}, {}};
  for (std::int32_t s = 0; s <= c.stages; ++s)
    plan.layout.layer_begin.push_back(static_cast<std::int32_t>(layers) * s / c.stages);
  ReplicaPlan& replica = plan.replicas.emplace_back();
  for (std::size_t d = 0; d < plan.lengths.size(); ++d)
    replica.sequences.emplace_back(static_cast<std::int32_t>(d));
  replica.packs = packs_of(c);
  plan.recompute = RecomputeByLayer(static_cast<std::size_t>(layers), c.recompute);
  return plan;
}

StepTokens tokens_of(const StepPlan& plan, std::int64_t vocabulary) {
  Rng rng(1);
  std::vector<std::vector<std::int64_t>> tokens;
  for (const Tokens length : plan.lengths) {
    auto& document = tokens.emplace_back();
    for (std::int64_t t = 0; t < length.count(); ++t)
      document.push_back(
          static_cast<std::int64_t>(rng.below(static_cast<std::uint64_t>(vocabulary))));
  }
  return make_step_tokens(tokens, vocabulary);
}

class CountedStep {
 public:
  CountedStep(const OperatorCase& c, std::int64_t layers)
      : case_(c),
        plan_(plan_of(c, layers)),
        schedule_(c.sliced ? sliced_one_f_one_b(plan_.replicas[0].packs, c.stages, 1)
                           : one_f_one_b(plan_.replicas[0].packs, c.stages)) {
    case_.shape.set_layers(layers);
  }

  Moments run() {
    if (!case_.processes) {
      run_engine(nullptr);
      return std::move(moments_);
    }
    testing::MailJob job({.pipeline = case_.stages, .tensor = case_.tensor});
    std::vector<std::jthread> processes;
    for (std::int32_t rank = 0; rank < job.grid().ranks(); ++rank)
      processes.emplace_back([this, &job, rank] { run_engine(&job.process(rank)); });
    processes.clear();
    return std::move(moments_);
  }

 private:
  void run_engine(JobProcess* process) {
    // Threads of one engine are tracked by their rank; each process has one.
    const std::int32_t first = process == nullptr ? 0 : process->ranks().front();
    EngineOptions options{
        .shape = case_.shape,
        .dtype = Dtype::kBf16,
        .layout = plan_.layout,
        .tensor = case_.tensor,
        .context = case_.lengths[0] + case_.lengths[1],
        .device = case_.device,
        .process = process,
        .hooks = {.before_action = [this, first] { note(first + tracked_rank()); }}};
    Engine engine(std::move(options));
    static_cast<void>(engine.run(plan_, lower(plan_, {&schedule_, 1}),
                                 tokens_of(plan_, case_.shape.vocab_size), std::nullopt));
  }

  void note(std::int32_t rank) {
    const std::lock_guard lock(mutex_);
    moments_[rank].push_back({counts_of_thread(), testing::pretended_calls_of_thread()});
  }

  OperatorCase case_;
  StepPlan plan_;
  Schedule schedule_;
  std::mutex mutex_;
  Moments moments_;
};

}  // namespace

Decoder small_model(bool qk_norm) {
  Decoder s;
  if (qk_norm) s.family = ModelFamily::kQwen3;
  s.kinds = {{.hidden_size = 64,
              .num_heads = 4,
              .num_kv_heads = 2,
              .head_dim = 16,
              .value_dim = 16,
              .qk_norm = qk_norm ? QkNorm::kPerHead : QkNorm::kNone,
              .dense_width = 96}};
  s.set_layers(1);
  s.vocab_size = 61;
  s.max_positions = Tokens(4096);
  return s;
}

Moments count_step(const OperatorCase& c, std::int64_t layers) {
  return CountedStep(c, layers).run();
}

Moment cost_of(const Moments& moments, std::int32_t rank, std::size_t index) {
  const std::vector<Moment>& actions = moments.at(rank);
  const Moment &before = actions.at(index), &after = actions.at(index + 1);
  return {
      difference(after.operators, before.operators),
      {after.calls.allocations - before.calls.allocations, after.calls.waits - before.calls.waits}};
}

}  // namespace slimpack
