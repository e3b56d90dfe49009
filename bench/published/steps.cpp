#include "bench/published/steps.h"

#include <fmt/format.h>

#include <array>
#include <utility>

#include "bench/published/csv.h"
#include "slimpack/base/error.h"
#include "slimpack/base/file.h"

namespace slimpack::bench {
namespace {

constexpr std::string_view kVtrainColumns =
    "# GPUs,global batch,micro batch,hidden size,attention heads,# layers,sequence length,tensor "
    "parallelism,data parallelism,pipeline parallelism,iteration time (ms)";
constexpr std::string_view kOtherColumns =
    "id,model,layers,hidden,heads,kv_heads,ffn,vocab,seq,gpu,ngpu,tp,pp,cp,dp,shard,vpp,mbs,gbs,"
    "recompute,precision,step_ms,tok_s_gpu,model_tflops_gpu,mem_gib,note,source";

/// GPT's vocabulary of 50,257 as Megatron pads it. vTrain does not publish its own.
constexpr std::int32_t kGptVocabulary = 51200;

/// The beginnings of ids, each with the set that such ids are of.
constexpr std::array<std::pair<std::string_view, std::string_view>, 12> kSets{{
    {"K5-", "Megatron 2022"},
    {"K1-", "Megatron 2022, memory"},
    {"SC21-", "Megatron 2021"},
    {"MLM-H100-", "Megatron 2024"},
    {"NeMo2407-", "NeMo 24.07"},
    {"NeMoLong-", "NeMo, long"},
    {"Bridge", "Megatron Bridge"},
    {"TT-", "torchtitan"},
    {"PR482-", "Megatron 2023"},
    {"IE-", "InternEvo"},
    {"SM-", "SimuMax"},
    {"MPT-", kFoundry},
}};

PublishedStep vtrain_step(const CsvRow& row, std::string_view set) {
  PublishedStep step;
  step.set = set;
  step.gpu = "A100, vTrain";
  step.gpus = row.needed_count("# GPUs");
  step.layers = row.needed_count("# layers");
  step.hidden = row.needed_count("hidden size");
  step.heads = step.kv_heads = row.needed_count("attention heads");
  step.ffn = 4 * step.hidden;
  step.vocabulary = kGptVocabulary;
  step.tokens = Tokens(row.needed_count("sequence length"));
  step.tp = row.needed_count("tensor parallelism");
  step.pp = row.needed_count("pipeline parallelism");
  step.dp = row.needed_count("data parallelism");
  step.micro_batch = row.needed_count("micro batch");
  step.batch = row.needed_count("global batch");
  step.recompute = "full";
  step.precision = "fp16";
  step.seconds = row.needed_figure("iteration time (ms)") * 1e-3;
  step.id = fmt::format("h{}-L{}-t{}-p{}-d{}-m{}-b{}", step.hidden, step.layers, step.tp, step.pp,
                        step.dp, step.micro_batch, step.batch);
  return step;
}

std::string set_of(const CsvRow& row) {
  for (const auto& [begin, set] : kSets)
    if (row.text("id").starts_with(begin)) return std::string(set);
  invalid_input("{}: id is \"{}\", must begin with a source's letters, such as \"{}\"; correct it",
                row.place(), row.text("id"), kSets.front().first);
}

/// A source that does not mention a degree does without.
std::int32_t degree(const CsvRow& row, std::string_view column) {
  return std::max(1, row.count(column));
}

PublishedStep other_step(const CsvRow& row) {
  PublishedStep step;
  step.set = set_of(row);
  step.id = row.text("id");
  step.gpu = row.text("gpu");
  step.gpus = row.count("ngpu");
  step.layers = row.needed_count("layers");
  step.hidden = row.needed_count("hidden");
  step.heads = row.needed_count("heads");
  step.kv_heads = row.needed_count("kv_heads");
  step.ffn = row.count("ffn");
  step.vocabulary = row.count("vocab");
  step.tokens = Tokens(row.needed_count("seq"));
  step.tp = degree(row, "tp");
  step.pp = degree(row, "pp");
  step.cp = degree(row, "cp");
  step.dp = degree(row, "dp");
  step.stages_per_rank = degree(row, "vpp");
  step.micro_batch = row.count("mbs");
  step.batch = row.count("gbs");
  step.shard = row.text("shard");
  step.recompute = row.text("recompute");
  step.precision = row.text("precision");
  step.compiled = std::string_view(row.text("note")).starts_with("compile");
  step.seconds = row.figure("step_ms") * 1e-3;
  step.memory = row.figure("mem_gib") * 0x1p30;
  return step;
}

std::vector<PublishedStep> vtrain_steps(std::string_view text, std::string_view header,
                                        const std::string& origin, std::string_view set) {
  const CsvTable table(text, header, origin);
  std::vector<PublishedStep> steps;
  for (const CsvRow& row : table.rows()) steps.push_back(vtrain_step(row, set));
  return steps;
}

}  // namespace

std::vector<PublishedStep> vtrain_one_node(std::string_view text, const std::string& origin) {
  return vtrain_steps(text, kVtrainColumns, origin, kOneNode);
}

std::vector<PublishedStep> vtrain_many_nodes(std::string_view text, const std::string& origin) {
  return vtrain_steps(text, fmt::format("Parameters (billion),{}", kVtrainColumns), origin,
                      kManyNodes);
}

std::vector<PublishedStep> other_steps(std::string_view text, const std::string& origin) {
  const CsvTable table(text, kOtherColumns, origin);
  std::vector<PublishedStep> steps;
  for (const CsvRow& row : table.rows()) steps.push_back(other_step(row));
  return steps;
}

std::vector<AllReduce> all_reduces(std::string_view text, const std::string& origin) {
  const CsvTable table(text, "ranks,bytes,us", origin);
  std::vector<AllReduce> times;
  for (const CsvRow& row : table.rows())
    times.push_back(
        {row.needed_count("ranks"), row.needed_figure("bytes"), row.needed_figure("us") * 1e-6});
  return times;
}

Published read_published(const std::filesystem::path& folder) {
  const auto text = [&](const char* name) { return read_file(folder / name, "measurements"); };
  const auto origin = [&](const char* name) { return (folder / name).string(); };
  Published published;
  const auto add = [&](const std::vector<PublishedStep>& steps) {
    published.steps.insert(published.steps.end(), steps.begin(), steps.end());
  };
  add(vtrain_one_node(text("vtrain_a100_single.csv"), origin("vtrain_a100_single.csv")));
  add(vtrain_many_nodes(text("vtrain_a100_multi.csv"), origin("vtrain_a100_multi.csv")));
  add(other_steps(text("published_rows.csv"), origin("published_rows.csv")));
  published.all_reduces =
      all_reduces(text("vtrain_a100_allreduce.csv"), origin("vtrain_a100_allreduce.csv"));
  return published;
}

}  // namespace slimpack::bench
