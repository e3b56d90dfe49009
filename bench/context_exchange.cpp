// One long document in slices on a pipeline in virtual time, with and without context exchange.
// Ranks run slices with prefixes of different length at the same time; the model is so small that
// attention is nearly all of their work. By tick in which every rank runs a forward (or a
// backward): the slowest rank against the mean of all, and against the mean without exchange, which
// is the even share of the same work.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string>
#include <vector>

#include "bench/documents.h"
#include "bench/program.h"
#include "bench/step_model.h"
#include "bench/step_options.h"
#include "bench/turns.h"
#include "slimpack/base/file.h"
#include "slimpack/base/median.h"
#include "slimpack/base/table.h"
#include "slimpack/packflow/device/memory_tracker.h"
#include "slimpack/packflow/device/processors.h"
#include "slimpack/packflow/profile/profile.h"
#include "slimpack/planner/replay.h"
#include "slimpack/planner/replica_tasks.h"
#include "slimpack/schedule/context_exchanges.h"
#include "slimpack/schedule/ticks.h"
#include "slimpack/sim/lower.h"

namespace slimpack {
namespace {

struct Arguments : StepOptions {
  std::int32_t ranks = 4;
  std::int32_t slices = 16;
};

/// Durations of what all ranks run at the same time, by half of a tick, then by rank.
using Halves = std::map<Ticks::Half, std::vector<double>>;

/// By turn, the sums over the halves in which all ranks run.
struct TickTimes {
  std::vector<double> slowest, mean;  ///< seconds, by turn
};

Decoder attention_model(const Arguments& a) {
  Decoder shape = step_model(a.context, 2 * a.ranks);
  shape.kinds[0].hidden_size = 64;
  shape.kinds[0].dense_width = 96;
  shape.kinds[0].num_heads = shape.kinds[0].num_kv_heads = 2;
  return shape;
}

class Bench {
 public:
  explicit Bench(const Arguments& a) : a_(a), shape_(attention_model(a)) {
    documents_ = {joined_document()};
    tokens_ = make_step_tokens(documents_, shape_.vocab_size);
    cost_ = profile_costs({.shape = shape_,
                           .context = a.context,
                           .ranks = processors(),
                           .clock = ClockKind::kVirtual});
  }

  void run() {
    Engine engine({.shape = shape_,
                   .layout = step(false).plan.layout,
                   .exchange_context = true,
                   .context = a_.context,
                   .clock = ClockKind::kVirtual});
    std::vector<Way> ways{{"without", &engine, step(false)},
                          {"with exchange", &engine, step(true)}};
    run_in_turn(ways, tokens_, TrainConfig(), a_.repetitions);
    report(ways);
  }

 private:
  [[nodiscard]] std::vector<std::int64_t> joined_document() const {
    std::vector<std::int64_t> document;
    for (const auto& part : standard_library_documents(a_.context, a_.context, 0))
      document.insert(document.end(), part.begin(), part.end());
    document.resize(static_cast<std::size_t>(a_.context.count()));
    return document;
  }

  [[nodiscard]] RatedPlan step(bool exchange) const {
    RatedPlan step;
    step.plan = {.lengths = {a_.context},
                 .layout = balanced_layout(cost_, {a_.context}, a_.ranks),
                 .replicas = {{{SequenceId(0)}, {}}}};
    PackPlan& packs = step.plan.replicas.front().packs;
    for (std::int64_t s = 0; s < a_.slices; ++s)
      packs.forward.push_back({{Slice{SequenceId(0), Tokens(a_.context.count() * s / a_.slices),
                                      Tokens(a_.context.count() * (s + 1) / a_.slices)}}});
    packs.backward.assign(packs.forward.rbegin(), packs.forward.rend());
    step.schedules = {sliced_one_f_one_b(packs, a_.ranks, 2)};
    if (exchange)
      step.schedules.front().exchanges = context_exchanges(step.plan, step.schedules).front();
    step.prediction = predict(step, cost_);
    step.lowered = lower(costed_replicas(step, cost_), step.schedules);
    return step;
  }

  [[nodiscard]] Halves halves_of(const Way& way, const Timeline& timeline) const {
    const Ticks ticks(way.planned.plan, way.planned.schedules, kChannelSlots);
    Halves halves;
    for (const Span& span : timeline.spans) {
      if (span.kind != SpanKind::kForward && span.kind != SpanKind::kBackward) continue;
      const Pass pass = span.kind == SpanKind::kForward ? Pass::kForward : Pass::kBackward;
      halves[ticks.of(0, {StageId(span.rank), pass, span.pack})].push_back(
          to_seconds(span.end - span.start));
    }
    std::erase_if(halves, [&](const auto& half) { return std::ssize(half.second) < a_.ranks; });
    return halves;
  }

  [[nodiscard]] TickTimes tick_times(const Way& way) const {
    TickTimes out;
    for (const Timeline& timeline : way.timelines()) {
      double slowest = 0, all = 0;
      for (const auto& [half, times] : halves_of(way, timeline)) {
        slowest += std::ranges::max(times);
        all += std::accumulate(times.begin(), times.end(), 0.0);
      }
      out.slowest.push_back(slowest);
      out.mean.push_back(all / a_.ranks);
    }
    return out;
  }

  void report(const std::vector<Way>& ways) const {
    Table table({{"", Align::kLeft},
                 {"step"},
                 {"replayed"},
                 {"predicted"},
                 {"slowest ÷ mean"},
                 {"÷ even share"},
                 {"peak of rank 0"}});
    const std::vector<double> even = tick_times(ways.front()).mean;
    nlohmann::json json = nlohmann::json::array();
    for (const Way& way : ways) {
      const TickTimes times = tick_times(way);
      const double seconds = median(way.all_seconds());
      const double replayed = to_seconds(replay(way.planned, cost_, way.timelines()).makespan);
      const double over_mean = median(by_turn(times.slowest, times.mean));
      const double over_even = median(by_turn(times.slowest, even));
      const Bytes peak = way.results.front().timeline.peak_activation.front();
      const Bytes foreseen = way.planned.prediction.peak_activation.front();
      const double predicted = to_seconds(way.planned.prediction.makespan);
      table.add_row({way.name, fmt::format("{:.3f} s", seconds), fmt::format("{:.3f} s", replayed),
                     fmt::format("{:.3f} s", predicted), fmt::format("{:.3f}", over_mean),
                     fmt::format("{:.3f}", over_even),
                     fmt::format("{:.3f} × predicted", static_cast<double>(peak.count()) /
                                                           static_cast<double>(foreseen.count()))});
      json.push_back({{"name", way.name},
                      {"seconds", seconds},
                      {"all_seconds", way.all_seconds()},
                      {"replayed_seconds", replayed},
                      {"predicted_seconds", predicted},
                      {"slowest_over_mean", over_mean},
                      {"slowest_over_even_share", over_even},
                      {"peak_bytes", peak.count()},
                      {"predicted_peak_bytes", foreseen.count()}});
    }
    const std::vector<double> speedup =
        by_turn(ways.front().all_seconds(), ways.back().all_seconds());
    fmt::print("{} tokens in {} slices, {} ranks\n\n{}\nwith exchange {} × as fast\n",
               a_.context.count(), a_.slices, a_.ranks, table.text(), turns_text(speedup));
    if (!a_.json.empty())
      write_file(a_.json,
                 nlohmann::json{{"cases", json}, {"speedup_by_turn", speedup}}.dump(2) + "\n");
  }

  Arguments a_;
  Decoder shape_;
  std::vector<std::vector<std::int64_t>> documents_;
  StepTokens tokens_;
  Costs cost_;
};

}  // namespace
}  // namespace slimpack

int main(int argc, char** argv) {
  slimpack::install_memory_tracker();
  CLI::App app{
      "One long document on a pipeline in virtual time, with and without context exchange.",
      "context_exchange"};
  slimpack::Arguments arguments;
  slimpack::add_step_options(app, arguments);
  app.add_option("--ranks", arguments.ranks, "Pipeline ranks")->capture_default_str();
  app.add_option("--slices", arguments.slices, "Slices of the document")->capture_default_str();
  return slimpack::run_benchmark(app, argc, argv, [&] { slimpack::Bench(arguments).run(); });
}
