// Gap: 200 seeded random jobs of Llama-2 7B on default hardware; how far each plan is from the
// lower bound of any plan, and whether it is correct by the checkers.
//
// A job has pp 2 to 16; about a quarter have 2 to 8 replicas, the others one. Its context is 16K to
// 128K. A pipeline this deep makes sense only with enough to fill it: each replica has at least 32
// MicroPacks of 4,096 tokens and at least 8 for each stage (what 4 packs of 8,192 are), times 1 to
// 4. Memory caps are multiples of what the longest sequence alone keeps on a stage, plus what one
// MicroPack of 4,096 tokens keeps.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <numeric>
#include <utility>

#include "bench/planner/jobs.h"
#include "bench/planner/lengths.h"
#include "bench/planner/parts.h"
#include "slimpack/base/median.h"
#include "slimpack/base/table.h"
#include "slimpack/cost/layer_memory.h"

namespace slimpack::bench {
namespace {

constexpr int kJobs = 200;
constexpr std::int64_t kPackTokens = 4096;
/// Times what the longest sequence keeps; 0 = no cap.
constexpr double kCaps[] = {0, 2, 1.3};

struct DrawnJob {
  StepJob step;
  Family family = Family::kEqual;
  std::size_t cap = 0;  ///< of kCaps
};

Bytes kept_bytes(const Costs& cost, const StageLayout& layout, Tokens tokens) {
  std::int32_t layers = 0;
  for (std::int32_t s = 0; s < layout.stages(); ++s)
    layers = std::max(layers, layout.layers(StageId(s)));
  const LayerWidths w(cost.shape.kinds[0], cost.dtype);
  const Bytes token(w.kept(Recompute::kElementwise) + 2 * w.k + w.gradients());
  return token * layers * tokens.count();
}

DrawnJob drawn_job(int index, const Decoder& shape) {
  Rng rng(static_cast<std::uint64_t>(index) + 1);
  DrawnJob out;
  out.family = kFamilies[index % 4];
  out.cap = static_cast<std::size_t>(index) / 4 % std::size(kCaps);
  Job& job = out.step.job;
  const std::int32_t pp = 2 + static_cast<std::int32_t>(rng.below(15));
  job.replicas = rng.below(4) == 0 ? 2 + static_cast<std::int32_t>(rng.below(7)) : 1;
  job.context = Tokens(std::int64_t{16'384} << rng.below(4));
  const double tokens = static_cast<double>(kPackTokens * std::max(256, 64 * pp)) * job.replicas *
                        (1 + 3 * rng.uniform());
  out.step.lengths =
      drawn_lengths(out.family, rng, Tokens(static_cast<std::int64_t>(tokens)), job.context);
  out.step.cost = cost_from_hardware(shape, Dtype::kBf16, HardwareSpec{}, 1, job.replicas, pp);
  job.layout = balanced_layout(out.step.cost, out.step.lengths, pp);
  if (kCaps[out.cap] > 0) {
    const Tokens longest = *std::ranges::max_element(out.step.lengths);
    const double kept = static_cast<double>(kept_bytes(out.step.cost, job.layout, longest).count());
    job.memory_cap = Bytes(static_cast<std::int64_t>(kCaps[out.cap] * kept)) +
                     kept_bytes(out.step.cost, job.layout, Tokens(kPackTokens));
  }
  return out;
}

/// Nothing is offloaded unless that is asked for.
void allow(Choices& choices, const std::string& recompute) {
  if (const auto one = recompute_from(recompute)) {
    choices.recompute = {*one};
    return;
  }
  choices.recompute.assign(all_recomputations().begin(), all_recomputations().end());
  std::erase(choices.recompute, Recompute::kOffload);
  choices.mixed_recompute = recompute == "auto";
}

/// The gaps of some jobs, by memory cap.
struct Group {
  std::string name;
  std::vector<double> gaps[std::size(kCaps)];

  [[nodiscard]] std::vector<double> all() const {
    std::vector<double> out;
    for (const auto& of_cap : gaps) out.insert(out.end(), of_cap.begin(), of_cap.end());
    return out;
  }
};

double mean(const std::vector<double>& gaps) {
  return std::reduce(gaps.begin(), gaps.end()) / static_cast<double>(gaps.size());
}

/// "mean, median, worst" in percent.
std::string cell(const std::vector<double>& gaps) {
  if (gaps.empty()) return "";
  return fmt::format("{:.1f}, {:.1f}, {:.1f}", 100 * mean(gaps), 100 * median(gaps),
                     100 * *std::ranges::max_element(gaps));
}

class Gaps {
 public:
  Gaps(const BenchOptions& options, Report& report) : options_(options), report_(report) {}

  void run() {
    PartProgress progress("gap", kJobs);
    const Decoder shape = read_decoder(repository_file("models/llama-2-7b.json"));
    for (int i = 0; i < kJobs; ++i) {
      DrawnJob drawn = drawn_job(i, shape);
      drawn.step.choices.effort = options_.effort;
      allow(drawn.step.choices, options_.recompute);
      measure(i, drawn);
      progress.advance();
    }
    progress.finish();
    print();
    if (failed_ < kJobs)
      report_.add_goal({fmt::format("gap: mean over {} jobs", kJobs - failed_),
                        mean(group("all").all()), Goal::Sense::kAtMost, 0.03, Unit::kShare});
    report_.add_goal({"gap: broken rules", static_cast<double>(violations_.size()),
                      Goal::Sense::kAtMost, 0, Unit::kCount});
  }

 private:
  Group& group(const std::string& name) { return *std::ranges::find(groups_, name, &Group::name); }

  void measure(int index, const DrawnJob& drawn) {
    const Job& job = drawn.step.job;
    const RatedStep step = rated(drawn.step);
    const std::string name =
        fmt::format("gap/{:03}/{}/cap-{}", index, to_string(drawn.family), kCaps[drawn.cap]);
    nlohmann::json more{{"pp", job.layout.stages()},
                        {"dp", job.replicas},
                        {"context", job.context.count()},
                        {"sequences", drawn.step.lengths.size()},
                        {"tokens", total_tokens(drawn.step.lengths).count()}};
    seconds_ += step.planning_seconds;
    if (step.step) {
      const auto broken = violations(*step.step, drawn.step.cost, job.memory_cap);
      more["violations"] = broken.size();
      more["recompute"] = describe(step.step->plan.recompute);
      for (const std::string& line : broken) violations_.push_back(name + ": " + line);
      add_gap(drawn, step.figures.gap);
      if (step.figures.gap > worst_.second) worst_ = {name, step.figures.gap};
    } else {
      ++failed_;
    }
    report_.add(name, step, more);
  }

  void add_gap(const DrawnJob& drawn, double gap) {
    const std::int32_t pp = drawn.step.job.layout.stages();
    const bool one = drawn.step.job.replicas == 1;
    for (const std::string& name :
         {std::string(to_string(drawn.family)),
          std::string(pp <= 5    ? "pp 2 to 5"
                      : pp <= 10 ? "pp 6 to 10"
                                 : "pp 11 to 16"),
          std::string(one ? "one replica" : "2 to 8 replicas"), std::string("all")})
      group(name).gaps[drawn.cap].push_back(gap);
  }

  void print() const {
    std::vector<Column> columns{{"jobs", Align::kLeft}};
    for (const double cap : kCaps)
      columns.push_back({cap > 0 ? fmt::format("cap {} × longest", cap) : "no cap"});
    columns.push_back({"together"});
    Table table(std::move(columns));
    for (const Group& g : groups_) {
      std::vector<std::string> row{g.name};
      for (const auto& gaps : g.gaps) row.push_back(cell(gaps));
      row.push_back(cell(g.all()));
      table.add_row(std::move(row));
    }
    fmt::print(
        "\nGap to the lower bound, mean, median, worst in percent: {} jobs, {} do not fit, planned "
        "in {} on average\n\n{}worst: {}; broken rules: {}\n",
        kJobs, failed_, text_of(seconds_ / kJobs, Unit::kSeconds), table.text(), worst_.first,
        violations_.size());
    for (const std::string& line : violations_) fmt::print("  {}\n", line);
  }

  const BenchOptions& options_;
  Report& report_;
  std::vector<Group> groups_{{"log-normal", {}},  {"Pareto", {}},      {"bimodal", {}},
                             {"equal", {}},       {"pp 2 to 5", {}},   {"pp 6 to 10", {}},
                             {"pp 11 to 16", {}}, {"one replica", {}}, {"2 to 8 replicas", {}},
                             {"all", {}}};
  std::vector<std::string> violations_;
  std::pair<std::string, double> worst_{"", 0};
  double seconds_ = 0;
  int failed_ = 0;
};

}  // namespace

void run_gap(const BenchOptions& options, Report& report) {
  Gaps(options, report).run();
}

}  // namespace slimpack::bench
