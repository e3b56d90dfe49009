#include "bench/ablation/steps.h"

#include <algorithm>
#include <initializer_list>

#include "bench/planner/workloads.h"
#include "slimpack/data/lengths.h"

namespace slimpack::bench {
namespace {

constexpr std::int64_t kContexts[] = {65'536, 131'072, 262'144};
constexpr std::size_t kFewSequences = 64;
constexpr std::size_t kHandful = 4;

Setting setting_a(const std::filesystem::path& lengths) {
  Setting a{"A", {}};
  for (const bool overheads : {false, true})
    for (const int gigabytes : {80, 90, 100, 0})
      a.jobs.push_back(setting_a_job(
          {real_lengths(lengths, kSettingASequences, kSettingAContext), overheads, gigabytes}));
  return a;
}

Setting setting_b(const std::string& name, std::initializer_list<std::size_t> counts) {
  Setting b{name, {}};
  for (const std::size_t sequences : counts)
    for (const std::int64_t context : kContexts)
      b.jobs.push_back(setting_b_job({1, sequences, Tokens(context)}));
  return b;
}

Setting h100() {
  Setting out{"H100", {}};
  for (const char* model : {"llama-3-8b", "qwen3-8b"})
    for (const std::int64_t context : kContexts)
      out.jobs.push_back(h100_job(h100_cost(model), {1, 512, Tokens(context)}));
  out.jobs.push_back(h100_job(h100_cost("llama-3-70b"), {1, 512, Tokens(kContexts[0])}));
  return out;
}

/// The first `count` of each list of 512 lengths after the first one.
std::vector<SequenceLengths> held_back(const SequenceLengths& all, std::size_t count) {
  std::vector<SequenceLengths> lists;
  for (std::size_t begin = kSettingASequences; begin < all.size(); begin += kSettingASequences)
    lists.emplace_back(all.begin() + static_cast<std::ptrdiff_t>(begin),
                       all.begin() + static_cast<std::ptrdiff_t>(begin + count));
  return lists;
}

Setting long_lists(const SequenceLengths& all) {
  Setting out{"lists", {}};
  for (const SequenceLengths& list : held_back(all, kSettingASequences))
    for (const int gigabytes : {80, 0}) out.jobs.push_back(setting_a_job({list, true, gigabytes}));
  return out;
}

Setting few_sequences(const std::string& name, const SequenceLengths& all, std::size_t count) {
  Setting out{name, {}};
  for (const SequenceLengths& list : held_back(all, count)) {
    out.jobs.push_back(setting_a_job({list, true, 0}));
    out.jobs.push_back(out.jobs.back());
    cap_at(out.jobs.back(), 1.2);
  }
  return out;
}

}  // namespace

void cap_at(StepJob& job, double times_longest) {
  const Tokens longest = *std::ranges::max_element(job.lengths);
  const double rows = times_longest * static_cast<double>(longest.count()) + 4096;
  const std::int32_t layers = job.job.layout.layers(StageId(0));
  job.job.memory_cap = Bytes(static_cast<std::int64_t>(rows * job.cost.row_bytes * layers));
}

std::vector<Setting> ablation_settings(const std::filesystem::path& lengths, std::size_t lists) {
  const std::size_t there = read_lengths(lengths).size() / kSettingASequences;
  lists = std::min(lists, std::max<std::size_t>(there, 2) - 1);
  const SequenceLengths all =
      real_lengths(lengths, (lists + 1) * kSettingASequences, kSettingAContext);
  return {setting_a(lengths),
          setting_b("B", {512, 2048}),
          setting_b("few", {16, 32}),
          h100(),
          long_lists(all),
          few_sequences("short", all, kFewSequences),
          few_sequences("tiny", all, kHandful)};
}

}  // namespace slimpack::bench
