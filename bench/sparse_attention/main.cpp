// Sparse attention of the last slice of a prompt beside dense attention, by the prompt's length:
// time, density and the share of the softmax's mass that is kept, for each method, on heads with
// the structure of language models' and on random ones.
#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string>
#include <vector>

#include "bench/program.h"
#include "bench/sparse_attention/structured_heads.h"
#include "slimpack/base/error.h"
#include "slimpack/base/file.h"
#include "slimpack/base/human.h"
#include "slimpack/base/median.h"
#include "slimpack/base/table.h"
#include "slimpack/packflow/device/memory_tracker.h"
#include "slimpack/packflow/device/rank_clock.h"
#include "slimpack/packflow/kernels/attention.h"
#include "slimpack/packflow/sparse/block_attention.h"
#include "slimpack/packflow/sparse/sparse_attention.h"

namespace slimpack {
namespace {

struct Arguments {
  std::int64_t shortest = 512;
  std::int64_t longest = 65536;
  std::int64_t slice = 2048;
  HeadSizes sizes;
  bool bf16 = false;
  bool random = false;
  bool always = false;
  bool token_major = false;
  int repetitions = 5;
  int threads = 1;
  std::string json;
};

struct NamedMethod {
  std::string name;
  SparseMethod method;
};

std::vector<NamedMethod> methods() {
  return {{"SampleAttention v1", SampledColumns{}},
          {"v1 beyond window", SampledColumns{.beyond_window = true}},
          {"SampleAttention v3", SampledBlocks{}},
          {"FlexPrefill", FlexPrefill{}},
          {"XAttention", XAttention{}},
          {"XAttention, 16", XAttention{.stride = 16}}};
}

/// Processor time of one thread, which other programs do not lengthen; with several the wall's.
template <class Call>
double seconds_of(int threads, Call call) {
  const RankClock clock(threads == 1 ? ClockKind::kVirtual : ClockKind::kWall, {});
  const Nanos start = clock.now();
  call();
  return to_seconds(clock.now() - start);
}

struct Outcome {
  double ratio = 0;  ///< of times, to dense
  double dense_seconds = 0;
  SparseReport report;

  [[nodiscard]] std::int64_t dense_heads() const {
    return std::ranges::count_if(report.heads, &SparseHeadReport::dense);
  }
  [[nodiscard]] double least_kept() const {
    double least = 1;
    for (const SparseHeadReport& head : report.heads) least = std::min(least, head.kept->least);
    return least;
  }
  [[nodiscard]] double mean_kept() const {
    double sum = 0;
    for (const SparseHeadReport& head : report.heads) sum += head.kept->mean;
    return sum / static_cast<double>(report.heads.size());
  }
};

class Bench {
 public:
  explicit Bench(const Arguments& a) : a_(a) {
    at::set_num_threads(a.threads);
    Rng rng(1);
    const SliceTensors like = random_slice(rng, a.sizes, 1, 1, type());
    measuring_ =
        seconds_of(a.threads, [&] { costs_ = measured_sparse_costs(like.q_TND, like.kv); });
  }

  void run() {
    fmt::print("last {} queries of a prompt, {} heads and {} key heads of {}, {}, {} thread{}\n\n",
               grouped(a_.slice), a_.sizes.heads, a_.sizes.kv_heads, a_.sizes.head_dim,
               a_.bf16 ? "bf16" : "fp32", a_.threads, a_.threads == 1 ? "" : "s");
    nlohmann::json cases = nlohmann::json::array();
    Table table({{"tokens"},
                 {"method", Align::kLeft},
                 {"dense"},
                 {"time ÷ dense"},
                 {"density"},
                 {"dense heads"},
                 {"least kept"},
                 {"mean kept"}});
    for (std::int64_t tokens = a_.shortest; tokens <= a_.longest; tokens *= 2) {
      const std::int64_t queries = std::min(tokens, a_.slice);
      Rng rng(static_cast<std::uint64_t>(tokens));
      SliceTensors slice = a_.random ? random_slice(rng, a_.sizes, tokens, queries, type())
                                     : structured_slice(rng, a_.sizes, tokens, queries, type());
      if (!a_.token_major) slice.kv = heads_end_to_end(slice.kv);
      for (const NamedMethod& m : methods()) {
        const Outcome o = measured(slice, m.method);
        table.add_row({grouped(tokens), m.name, fmt::format("{:.0f} ms", 1e3 * o.dense_seconds),
                       fmt::format("{:.3f}", o.ratio), human_share(o.report.density()),
                       fmt::format("{}", o.dense_heads()), fmt::format("{:.3f}", o.least_kept()),
                       fmt::format("{:.3f}", o.mean_kept())});
        cases.push_back(json_of(tokens, m, o));
      }
    }
    fmt::print("{}\n", table.text());
    fmt::print("machine measured in {:.2f} s\n", measuring_);
    if (!a_.json.empty())
      write_file(a_.json, nlohmann::json{{"costs", costs_json()}, {"cases", cases}}.dump(2) + "\n");
  }

 private:
  [[nodiscard]] at::ScalarType type() const { return a_.bf16 ? at::kBFloat16 : at::kFloat; }

  [[nodiscard]] Outcome measured(const SliceTensors& slice, const SparseMethod& method) const {
    SparseAttention choice{method, costs_, {}};
    if (a_.always) choice.costs.reset();
    const auto prefix = Tokens(slice.kv.k.size(0) - slice.q_TND.size(0));
    std::vector<double> ratios, dense_times;
    for (int turn = 0; turn <= a_.repetitions; ++turn) {
      const double dense = seconds_of(
          a_.threads, [&] { static_cast<void>(attention_forward(slice.q_TND, slice.kv, prefix)); });
      const double sparse = seconds_of(a_.threads, [&] {
        static_cast<void>(sparse_attention_forward(slice.q_TND, slice.kv, prefix, choice, nullptr));
      });
      if (turn == 0) continue;  // warms up
      ratios.push_back(sparse / dense);
      dense_times.push_back(dense);
    }
    Outcome outcome{median(ratios), median(dense_times), {}};
    choice.measured_heads.resize(static_cast<std::size_t>(a_.sizes.heads));
    std::iota(choice.measured_heads.begin(), choice.measured_heads.end(), 0);
    static_cast<void>(
        sparse_attention_forward(slice.q_TND, slice.kv, prefix, choice, &outcome.report));
    return outcome;
  }

  static nlohmann::json json_of(std::int64_t tokens, const NamedMethod& m, const Outcome& o) {
    return {{"tokens", tokens},
            {"method", m.name},
            {"time_over_dense", o.ratio},
            {"dense_seconds", o.dense_seconds},
            {"density", o.report.density()},
            {"dense_heads", o.dense_heads()},
            {"least_kept", o.least_kept()},
            {"mean_kept", o.mean_kept()}};
  }

  [[nodiscard]] nlohmann::json costs_json() const {
    nlohmann::json json{{"dense_pair", costs_.dense_pair},   {"packed_key", costs_.packed_key},
                        {"moved_row", costs_.moved_row},     {"product_pair", costs_.product_pair},
                        {"weight_pair", costs_.weight_pair}, {"choice", costs_.choice},
                        {"measured_in_seconds", measuring_}};
    for (std::size_t i = 0; i < kBlockSizes.size(); ++i)
      json["blocks"].push_back({{"queries", kBlockSizes[i]},
                                {"pair", costs_.blocks[i].pair},
                                {"call", costs_.blocks[i].call},
                                {"own", costs_.blocks[i].own}});
    return json;
  }

  Arguments a_;
  SparseCosts costs_;
  double measuring_ = 0;
};

void check(const Arguments& a) {
  if (a.sizes.heads % a.sizes.kv_heads != 0)
    invalid_input("--heads is {}, but heads share key heads evenly: take a multiple of {}",
                  a.sizes.heads, a.sizes.kv_heads);
}

}  // namespace
}  // namespace slimpack

int main(int argc, char** argv) {
  slimpack::install_memory_tracker();
  CLI::App app{
      "Sparse attention of the last slice of a prompt beside dense attention: time, density and "
      "the kept share of the softmax's mass.",
      "sparse_attention"};
  slimpack::Arguments a;
  const auto positive = CLI::PositiveNumber;
  app.add_option("--shortest", a.shortest, "Tokens of the shortest prompt")
      ->check(positive)
      ->capture_default_str();
  app.add_option("--longest", a.longest, "Tokens of the longest; in between they double")
      ->check(positive)
      ->capture_default_str();
  app.add_option("--slice", a.slice, "Queries of the slice")
      ->check(positive)
      ->capture_default_str();
  app.add_option("--heads", a.sizes.heads, "Query heads")->check(positive)->capture_default_str();
  app.add_option("--kv-heads", a.sizes.kv_heads, "Heads of keys and values")
      ->check(positive)
      ->capture_default_str();
  app.add_option("--head-dim", a.sizes.head_dim, "Size of a head, above 16")
      ->check(CLI::Range(24, 512))
      ->capture_default_str();
  app.add_flag("--bf16", a.bf16, "In bf16; else in fp32");
  app.add_flag("--random", a.random, "Random queries and keys; else with structure");
  app.add_flag("--always", a.always, "Sparse even where dense is predicted to be faster");
  app.add_flag("--token-major", a.token_major,
               "Keys of all heads side by side, token by token; else each head's lie end to end");
  app.add_option("--repetitions", a.repetitions, "Turns, of which the median counts")
      ->check(positive)
      ->capture_default_str();
  app.add_option("--threads", a.threads, "Threads")->check(positive)->capture_default_str();
  app.add_option("--json", a.json, "Write the figures here");
  return slimpack::run_benchmark(app, argc, argv, [&] {
    slimpack::check(a);
    slimpack::Bench(a).run();
  });
}
