// hardware/h100-fa2.toml against the measurements that its attention was fitted to.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <sstream>
#include <vector>

#include "slimpack/base/file.h"
#include "slimpack/cost/cost_model.h"
#include "slimpack/cost/fit.h"
#include "slimpack/plan/slice.h"
#include "slimpack/spec/hardware.h"

namespace slimpack {
namespace {

constexpr double kHeads = 64;
constexpr double kHeadDim = 128;

std::filesystem::path hardware_folder() {
  return std::filesystem::path(SLIMPACK_SOURCE_DIR) / "hardware";
}

struct Measured {
  Tokens tokens;
  double tp = 1;
  double nanos = 0;
};

/// Columns: tokens, context parallelism (1), tensor parallelism, milliseconds.
std::vector<Measured> measurements() {
  std::istringstream lines(read_file(hardware_folder() / "h100_attention.csv", "times"));
  std::string line;
  std::getline(lines, line);
  EXPECT_EQ(line, "L,cp,tp,duration_per_doc");
  std::vector<Measured> all;
  char comma = 0;
  std::int64_t tokens = 0;
  double cp = 0;
  double tp = 0;
  double milliseconds = 0;
  while (lines >> tokens >> comma >> cp >> comma >> tp >> comma >> milliseconds) {
    EXPECT_EQ(cp, 1);
    all.push_back({Tokens(tokens), tp, milliseconds * 1e6});
  }
  return all;
}

double pairs(const Measured& m) {
  return Slice{SequenceId(), Tokens(0), m.tokens}.causal_pairs();
}

TEST(FlashAttention2File, HoldsTheFitOfTheMeasurementsBesideIt) {
  const std::vector<Measured> all = measurements();
  ASSERT_EQ(all.size(), 44U);
  // launch + token_head · tokens · heads + pair · pairs · heads, relative to the measured time.
  std::vector<std::vector<double>> columns(3);
  for (const Measured& m : all) {
    const double heads = kHeads / m.tp;
    columns[0].push_back(1 / m.nanos);
    columns[1].push_back(static_cast<double>(m.tokens.count()) * heads / m.nanos);
    columns[2].push_back(pairs(m) * heads / m.nanos);
  }
  const auto fit = non_negative_least_squares(columns, std::vector<double>(all.size(), 1.0));
  const HardwareSpec file = read_hardware(hardware_folder() / "h100-fa2.toml");
  // Half a unit of the last digit that the file states.
  EXPECT_NEAR(fit[0] / 1e3, file.attention_slice_us, 0.005);
  EXPECT_NEAR(fit[1], file.attention_token_head_ns, 0.0005);
  EXPECT_NEAR(4 * kHeadDim / fit[2] * 1e9, file.attention_forward_flops, 0.05e12);
}

/// The measured layer: linear work takes no time.
Costs attention_only(const HardwareSpec& h100, double tp) {
  Decoder shape;
  shape.kinds = {{.hidden_size = 8192,
                  .num_heads = static_cast<std::int64_t>(kHeads / tp),
                  .num_kv_heads = 1,
                  .head_dim = static_cast<std::int64_t>(kHeadDim),
                  .value_dim = static_cast<std::int64_t>(kHeadDim),
                  .dense_width = 28672}};
  shape.set_layers(1);
  shape.vocab_size = 32000;
  HardwareSpec hardware = h100;
  hardware.linear_flops = 1e30;
  return cost_from_hardware(shape, Dtype::kBf16, hardware);
}

TEST(FlashAttention2File, PredictsEveryMeasurementWithinTheErrorThatTheDocumentationStates) {
  const HardwareSpec h100 = read_hardware(hardware_folder() / "h100-fa2.toml");
  double largest = 0;
  double largest_of_long = 0;
  double sum = 0;
  for (const Measured& m : measurements()) {
    const Costs cost = attention_only(h100, m.tp);
    const double predicted =
        cost.kinds.front().forward.per_slice +
        cost.kinds.front().forward.per_token * static_cast<double>(m.tokens.count()) +
        cost.kinds.front().forward.per_pair * pairs(m);
    const double error = std::abs(predicted / m.nanos - 1);
    largest = std::max(largest, error);
    if (m.tokens >= Tokens(4096)) largest_of_long = std::max(largest_of_long, error);
    sum += error;
  }
  // hardware/README.md: 14.1% at most (2,048 tokens on 8 heads), 3.6% on average, 5.1% from 4,096
  // on.
  EXPECT_NEAR(largest, 0.141, 0.0005);
  EXPECT_NEAR(sum / 44, 0.036, 0.0005);
  EXPECT_NEAR(largest_of_long, 0.051, 0.0005);
}

}  // namespace
}  // namespace slimpack
