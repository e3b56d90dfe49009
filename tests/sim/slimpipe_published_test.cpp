// SlimPipe's order against its authors' figures: bubble and activations of the configurations in
// the artifact of arXiv:2504.14519 (kwai/Megatron-Kwai, branch sc25slimpipe,
// examples/sc25slimpipe/csv/256-slimpipe-*.csv and 128-slimpipe-partial+fc1.csv).
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>

#include "slimpack/sim/simulate.h"

namespace slimpack {
namespace {

struct Model {
  const char* name;
  std::int64_t layers, hidden, kv_hidden, ffn;  ///< ffn: of all experts of a token
};
constexpr Model k70B{"LLaMA-70B-GQA", 80, 8192, 1024, 28672};
constexpr Model k150B{"LLaMA-150B-GQA", 96, 12288, 1024, 32768};
constexpr Model k8x7B{"Mixtral-8x7B", 32, 4096, 1024, 2 * 14336};
constexpr Model k8x22B{"Mixtral-8x22B", 56, 6144, 1024, 2 * 16384};

enum class Keeps : std::uint8_t { kAll, kPartial, kFull };  ///< recompute no, partial+fc1, full

/// Bytes for each token and layer in bf16.
std::int64_t kept_bytes(const Model& model, Keeps keeps) {
  switch (keeps) {
    case Keeps::kAll:
      return 12 * model.hidden + 4 * model.kv_hidden + 6 * model.ffn;
    case Keeps::kPartial:
      return 8 * model.hidden + 4 * model.kv_hidden;
    case Keeps::kFull:
      return 2 * model.hidden;
  }
  return 0;
}

struct Row {
  Model model;
  Keeps keeps;
  std::int64_t tokens;           ///< of a sequence
  std::int32_t split;            ///< tensor · context parallel ranks
  std::int32_t ranks, slices;    ///< p, n
  std::int32_t stages_per_rank;  ///< v
  std::int32_t sequences;        ///< of a replica
  double gibibytes;              ///< "Activation Memory (GiB)"
  const char* bubble;            ///< "Bubble Ratio"
};

const Row kRows[] = {
    {k70B, Keeps::kAll, 65536, 8, 8, 8, 10, 16, 24.60, "0.54%"},
    {k70B, Keeps::kAll, 65536, 4, 8, 8, 10, 8, 49.20, "1.08%"},
    {k70B, Keeps::kAll, 65536, 8, 4, 4, 20, 8, 45.02, "0.47%"},
    {k70B, Keeps::kAll, 131072, 8, 16, 16, 5, 16, 28.79, "1.16%"},
    {k70B, Keeps::kAll, 262144, 8, 16, 32, 5, 8, 49.73, "1.16%"},
    {k70B, Keeps::kFull, 524288, 8, 16, 32, 5, 4, 5.94, "2.29%"},
    {k70B, Keeps::kFull, 524288, 4, 16, 32, 5, 2, 11.88, "4.48%"},
    {k70B, Keeps::kFull, 524288, 8, 8, 16, 10, 2, 10.88, "2.14%"},
    {k150B, Keeps::kAll, 65536, 8, 16, 16, 6, 32, 20.92, "0.49%"},
    {k150B, Keeps::kAll, 65536, 4, 16, 16, 6, 16, 41.84, "0.97%"},
    {k150B, Keeps::kAll, 65536, 8, 8, 8, 12, 16, 36.52, "0.45%"},
    {k150B, Keeps::kAll, 262144, 8, 32, 32, 3, 16, 52.46, "1.98%"},
    {k150B, Keeps::kAll, 262144, 8, 32, 64, 3, 16, 42.17, "1.00%"},
    {k150B, Keeps::kFull, 262144, 8, 32, 32, 3, 16, 3.70, "1.98%"},
    {k150B, Keeps::kFull, 524288, 8, 8, 16, 12, 2, 19.31, "1.79%"},
    {k8x7B, Keeps::kAll, 65536, 4, 4, 4, 8, 4, 32.66, "2.29%"},
    {k8x7B, Keeps::kAll, 524288, 8, 32, 32, 1, 8, 40.39, "10.80%"},
    {k8x7B, Keeps::kAll, 524288, 8, 16, 32, 2, 4, 40.39, "5.54%"},
    {k8x7B, Keeps::kAll, 524288, 8, 32, 64, 1, 8, 27.07, "5.71%"},
    {k8x7B, Keeps::kPartial, 65536, 1, 8, 8, 4, 4, 12.94, "5.19%"},
    {k8x7B, Keeps::kPartial, 131072, 1, 16, 16, 2, 4, 17.44, "10.49%"},
    {k8x22B, Keeps::kAll, 65536, 8, 8, 8, 7, 16, 18.32, "0.78%"},
    {k8x22B, Keeps::kAll, 131072, 8, 8, 8, 7, 8, 36.64, "1.54%"},
    {k8x22B, Keeps::kAll, 65536, 8, 4, 4, 14, 8, 32.45, "0.67%"},
    {k8x22B, Keeps::kPartial, 131072, 8, 4, 4, 14, 8, 12.59, "0.67%"},
};

/// All slices take the same time, as with context exchange. A slice holds its share of what its
/// sequence keeps on a stage.
ReplicaPacks slices_of(const Row& row) {
  ReplicaPacks out;
  const Tokens length(row.slices);
  for (std::int32_t q = 0; q < row.sequences; ++q)
    for (std::int32_t i = 0; i < row.slices; ++i) {
      const std::int32_t back = row.slices - 1 - i;
      out.packs.forward.push_back({{Slice{SequenceId(q), Tokens(i), Tokens(i + 1)}}});
      out.packs.backward.push_back({{Slice{SequenceId(q), Tokens(back), Tokens(back + 1)}}});
    }
  const auto stages = static_cast<std::size_t>(row.ranks * row.stages_per_rank);
  const auto ranks = static_cast<std::size_t>(row.ranks);
  const std::size_t packs = out.packs.forward.size();
  const auto sequences = static_cast<std::size_t>(row.sequences);
  out.times.forward.assign(stages, std::vector<Nanos>(packs, Nanos(10)));
  out.times.backward.assign(stages, std::vector<Nanos>(packs, Nanos(20)));
  out.times.forward_transfer.resize(packs);
  out.times.backward_transfer.resize(packs);
  out.times.reduce.resize(ranks);
  out.times.step_end.resize(ranks);
  const Bytes whole(kept_bytes(row.model, row.keeps) * row.tokens * row.model.layers);
  const Bytes rows = whole / row.split / row.ranks / row.stages_per_rank / row.slices;
  out.bytes.rows.assign(stages, std::vector<Bytes>(packs, rows));
  out.bytes.kv.assign(stages, std::vector<Bytes>(sequences));
  out.bytes.dkv = out.bytes.kv;
  out.bytes.forward_transient.assign(stages, std::vector<Bytes>(packs));
  out.bytes.backward_transient = out.bytes.forward_transient;
  out.bytes.forward_input.resize(packs);
  out.bytes.backward_input.resize(packs);
  return out;
}

TEST(SlimPipePublished, BubblesToThePrintedDigitsAndActivations) {
  for (const Row& row : kRows) {
    const ReplicaPacks slices = slices_of(row);
    const Schedule order = sliced_one_f_one_b(slices.packs, row.ranks, 2, row.stages_per_rank);
    const SimulationResult result =
        simulate(std::span(&slices, 1), std::span(&order, 1), {kChannelSlots, false});
    const std::string what = fmt::format("{}, p {}, n {}, v {}, {} sequences", row.model.name,
                                         row.ranks, row.slices, row.stages_per_rank, row.sequences);
    EXPECT_EQ(fmt::format("{:.2f}%", 100 * result.bubble_ratio), row.bubble) << what;
    const double peak =
        static_cast<double>(std::ranges::max(result.peak_activation).count()) / (1 << 30);
    EXPECT_NEAR(peak / row.gibibytes, 1, 0.002) << what;
  }
}

}  // namespace
}  // namespace slimpack
