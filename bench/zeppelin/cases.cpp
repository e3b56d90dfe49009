#include "bench/zeppelin/cases.h"

#include <algorithm>
#include <cmath>

#include "bench/planner/jobs.h"
#include "slimpack/base/random.h"

namespace slimpack::bench {
namespace {

Decoder llama(std::int64_t hidden, std::int64_t intermediate, std::int64_t layers,
              std::int64_t heads) {
  Decoder shape;
  shape.kinds[0].hidden_size = hidden;
  shape.kinds[0].dense_width = intermediate;
  shape.set_layers(layers);
  shape.kinds[0].num_heads = shape.kinds[0].num_kv_heads = heads;
  shape.kinds[0].head_dim = shape.kinds[0].value_dim = hidden / heads;
  shape.vocab_size = 32'000;
  shape.max_positions = Tokens(1 << 20);
  return shape;
}

std::int64_t log_normal(Rng& rng, double median, double spread) {
  return static_cast<std::int64_t>(median * std::exp(spread * rng.normal()));
}

std::int64_t draw(const std::string& kind, Rng& rng) {
  if (kind == "arxiv") return log_normal(rng, 12'000, 0.8);
  if (kind == "github") return log_normal(rng, 1'500, 1.6);
  // About six of ten tokens are in documents of 64K.
  return rng.uniform() < 0.05 ? 65'536 : log_normal(rng, 1'500, 0.9);
}

constexpr Tokens kTokensPerRank{4'096};
constexpr double kElement = 2;   // bytes of bf16
constexpr double kGradient = 4;  // bytes of fp32

LayerPasses zoned_layer(const Cluster& cluster, const Decoder& shape) {
  const Costs cost = cost_from_hardware(shape, Dtype::kBf16, cluster.hardware);
  const auto heads = static_cast<double>(shape.kinds[0].num_heads);
  const double of_queries = cluster.hardware.attention_token_head_ns * heads;
  const double keys_values = 2 * kElement * static_cast<double>(shape.kinds[0].k_width());
  const double hidden = 2 * kElement * static_cast<double>(shape.hidden_size());  // there and back
  const LayerShape layer = shape.kinds[0];
  const double growth = layer_attention_flops(layer, 1, Pass::kBackward).count() /
                        layer_attention_flops(layer, 1, Pass::kForward).count();
  return {.forward = {cost.forward, of_queries, keys_values, hidden},
          // Gradients of keys and values travel with them.
          .backward = {cost.backward, of_queries * growth, 2 * keys_values, hidden}};
}

}  // namespace

std::vector<Cluster> zeppelin_clusters() {
  // Both chips are an A100 and an H100 whose links inside a node have 400 GB/s both ways together.
  HardwareSpec a800 = read_hardware(repository_file("hardware/a100.toml"));
  a800.name = "A800";
  a800.node_link_bytes_per_second = 200e9;
  a800.nics_per_node = 4;
  a800.link_bytes_per_second = 12.5e9;
  HardwareSpec h800 = read_hardware(repository_file("hardware/h100.toml"));
  h800.name = "H800";
  h800.node_link_bytes_per_second = 200e9;
  h800.link_bytes_per_second = 50e9;
  return {{"A800", a800}, {"H800", h800}};
}

std::vector<NamedModel> zeppelin_models() {
  return {{"3B", llama(3'200, 8'640, 26, 32)},
          {"7B", llama(4'096, 11'008, 32, 32)},
          {"13B", llama(5'120, 13'824, 40, 40)}};
}

std::vector<std::string> zeppelin_length_kinds() {
  return {"arxiv", "github", "prolong64k"};
}

SequenceLengths draw_lengths(const std::string& kind, Tokens total, std::uint64_t seed) {
  Rng rng(seed);
  SequenceLengths lengths;
  for (Tokens left = total; left > Tokens(0); left -= lengths.back())
    lengths.push_back(std::min(left, Tokens(std::max<std::int64_t>(64, draw(kind, rng)))));
  return lengths;
}

ZoneProblem Batch::problem(double times) const {
  const double tokens = times * static_cast<double>(kTokensPerRank.count());
  return {ranks, links, Tokens(static_cast<std::int64_t>(tokens))};
}

double Batch::step_time(double forward, double backward) const {
  return std::max(layers * forward, gathering) + std::max(layers * backward, reducing);
}

Batch make_batch(const Cluster& cluster, const Decoder& shape, const std::string& kind,
                 std::int32_t ranks, std::uint64_t seed) {
  const LinkMap links = link_map(cluster.hardware);
  // Rings over all NICs: each node passes all of it on once.
  const double element =
      static_cast<double>(shape.parameters()) * links.nic_per_byte / links.nics_per_node;
  return {.lengths = draw_lengths(kind, ranks * kTokensPerRank, seed),
          .ranks = ranks,
          .links = links,
          .layer = zoned_layer(cluster, shape),
          .layers = static_cast<std::int32_t>(shape.num_layers()),
          .reducing = kGradient * element,
          .gathering = kElement * element};
}

}  // namespace slimpack::bench
