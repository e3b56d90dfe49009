// Gap: 200 seeded random jobs of Llama-2 7B on default hardware; how far each plan is from the
// lower bound of any plan, and whether it is correct by the checkers.
//
// A job has pp 2 to 16; every fourth has 2 to 8 replicas, the others one. Its context is 16K to
// 128K. A pipeline this deep makes sense only with enough to fill it: each replica has at least 32
// MicroPacks of 4,096 tokens and at least 8 for each stage (what 4 packs of 8,192 are), times 1 to
// 4. Memory caps are multiples of what the longest sequence alone keeps on a stage, plus what one
// MicroPack of 4,096 tokens keeps.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "bench/planner/jobs.h"
#include "bench/planner/parts.h"
#include "bench/planner/workloads.h"
#include "slimpack/base/human.h"
#include "slimpack/base/table.h"
#include "slimpack/cost/memory_model.h"

namespace slimpack::bench {
namespace {

constexpr int kJobs = 200;
constexpr std::int64_t kPackTokens = 4096;
/// Times what the longest sequence keeps; 0 = no cap.
constexpr double kCaps[] = {0, 2, 1.3};

std::string cap_name(double cap) {
  return cap > 0 ? fmt::format("{} × longest", cap) : "none";
}

struct DrawnJob {
  Job job;
  Family family = Family::kEqual;
  double cap = 0;
};

Bytes kept_bytes(const CostModel& cost, const StageLayout& layout, Tokens tokens) {
  std::int32_t layers = 0;
  for (std::int32_t s = 0; s < layout.stages(); ++s)
    layers = std::max(layers, layout.layers(StageId(s)));
  const Bytes token = row_bytes(cost.shape, cost.dtype) + kv_bytes(cost.shape, cost.dtype) +
                      dkv_bytes(cost.shape, cost.dtype);
  return token * layers * tokens.count();
}

DrawnJob drawn_job(int index, const ModelShape& shape) {
  Rng rng(static_cast<std::uint64_t>(index) + 1);
  DrawnJob out;
  out.family = kFamilies[index % 4];
  out.cap = kCaps[index / 4 % 3];
  PlanRequest& request = out.job.request;
  request.pp = 2 + static_cast<std::int32_t>(rng.below(15));
  request.dp = rng.below(4) == 0 ? 2 + static_cast<std::int32_t>(rng.below(7)) : 1;
  request.context = Tokens(std::int64_t{16'384} << rng.below(4));
  const double tokens = static_cast<double>(kPackTokens * std::max(256, 64 * request.pp)) *
                        request.dp * (1 + 3 * rng.uniform());
  request.lengths =
      drawn_lengths(out.family, rng, Tokens(static_cast<std::int64_t>(tokens)), request.context);
  out.job.cost = cost_from_hardware(shape, Dtype::kBf16, HardwareSpec{}, 1, request.dp);
  request.layout = balanced_layout(out.job.cost, request.lengths, request.pp);
  if (out.cap > 0) {
    const Tokens longest = *std::ranges::max_element(request.lengths);
    const double kept =
        static_cast<double>(kept_bytes(out.job.cost, *request.layout, longest).count());
    request.memory_cap = Bytes(static_cast<std::int64_t>(out.cap * kept)) +
                         kept_bytes(out.job.cost, *request.layout, Tokens(kPackTokens));
  }
  return out;
}

class Gaps {
 public:
  explicit Gaps(Report& report) : report_(report) {}

  void run() {
    PartProgress progress("gap", kJobs);
    const ModelShape shape = read_model_shape(repository_file("models/llama-2-7b.json"));
    for (int i = 0; i < kJobs; ++i) {
      measure(i, drawn_job(i, shape));
      progress.advance();
    }
    progress.finish();
    print();
    const double mean = all_.empty() ? 1 : std::reduce(all_.begin(), all_.end()) / std::size(all_);
    report_.add_goal({"gap: mean over 200 jobs", mean, Goal::Sense::kAtMost, 0.03, Unit::kShare});
    report_.add_goal({"gap: broken rules", static_cast<double>(violations_.size()),
                      Goal::Sense::kAtMost, 0, Unit::kRatio});
  }

 private:
  void measure(int index, const DrawnJob& drawn) {
    const PlanRequest& request = drawn.job.request;
    const RatedStep step = rated(request, drawn.job.cost);
    const std::string name =
        fmt::format("gap/{:03}/{}/cap-{}", index, to_string(drawn.family), drawn.cap);
    nlohmann::json more{{"pp", request.pp},
                        {"dp", request.dp},
                        {"context", request.context.count()},
                        {"sequences", request.lengths.size()},
                        {"tokens", total_tokens(request.lengths).count()}};
    seconds_ += step.planning_seconds;
    if (step.step) {
      const auto broken = violations(*step.step, drawn.job.cost, request.memory_cap);
      more["violations"] = broken.size();
      for (const std::string& line : broken) violations_.push_back(name + ": " + line);
      groups_[{std::string(to_string(drawn.family)), cap_name(drawn.cap)}].push_back(
          step.figures.gap);
      all_.push_back(step.figures.gap);
      if (step.figures.gap > worst_.second) worst_ = {name, step.figures.gap};
    } else {
      ++failed_;
    }
    report_.add(name, step, more);
  }

  static std::vector<std::string> row_of(const std::string& family, const std::string& cap,
                                         const std::vector<double>& gaps) {
    if (gaps.empty()) return {family, cap, "0", "", "", ""};
    const double mean =
        std::reduce(gaps.begin(), gaps.end()) / static_cast<double>(std::size(gaps));
    return {family,
            cap,
            fmt::format("{}", gaps.size()),
            text_of(mean, Unit::kShare),
            text_of(median(gaps), Unit::kShare),
            text_of(*std::ranges::max_element(gaps), Unit::kShare)};
  }

  void print() const {
    Table table({{"lengths", Align::kLeft}, {"cap"}, {"jobs"}, {"mean"}, {"median"}, {"worst"}});
    for (const Family family : kFamilies)
      for (const double cap : kCaps) {
        const auto found = groups_.find({std::string(to_string(family)), cap_name(cap)});
        if (found != groups_.end())
          table.add_row(row_of(found->first.first, found->first.second, found->second));
      }
    table.add_row(row_of("all", "", all_));
    fmt::print("\nGap to the lower bound: {} jobs, {} do not fit, planned in {} on average\n\n{}",
               kJobs, failed_, text_of(seconds_ / kJobs, Unit::kSeconds), table.text());
    fmt::print("worst: {}; broken rules: {}\n", worst_.first, violations_.size());
    for (const std::string& line : violations_) fmt::print("  {}\n", line);
  }

  Report& report_;
  std::map<std::pair<std::string, std::string>, std::vector<double>> groups_;
  std::vector<double> all_;
  std::vector<std::string> violations_;
  std::pair<std::string, double> worst_{"", 0};
  double seconds_ = 0;
  int failed_ = 0;
};

}  // namespace

void run_gap(const BenchOptions&, Report& report) {
  Gaps(report).run();
}

}  // namespace slimpack::bench
