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
  shape.kinds = {{.hidden_size = hidden,
                  .num_heads = heads,
                  .num_kv_heads = heads,
                  .head_dim = hidden / heads,
                  .value_dim = hidden / heads,
                  .dense_width = intermediate}};
  shape.set_layers(layers);
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

}  // namespace slimpack::bench
