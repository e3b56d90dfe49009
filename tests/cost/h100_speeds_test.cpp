// hardware/h100.toml against the published times that it was fitted to.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include "slimpack/base/file.h"
#include "slimpack/cost/cost_model.h"
#include "slimpack/cost/fit.h"
#include "slimpack/spec/hardware.h"

namespace slimpack {
namespace {

std::filesystem::path hardware_file(const char* name) {
  return std::filesystem::path(SLIMPACK_SOURCE_DIR) / "hardware" / name;
}

/// The numbers of a CSV file whose first line is `header`.
std::vector<std::vector<double>> table(const char* name, const std::string& header) {
  std::istringstream lines(read_file(hardware_file(name), "times"));
  std::string line;
  std::getline(lines, line);
  EXPECT_EQ(line, header);
  std::vector<std::vector<double>> rows;
  while (std::getline(lines, line)) {
    std::istringstream cells(line);
    rows.emplace_back();
    for (std::string cell; std::getline(cells, cell, ',');) rows.back().push_back(std::stod(cell));
  }
  return rows;
}

/// The four products of a layer on one of tp ranks.
struct Products {
  double weights = 0;
  double rows = 0;
  double nanos = 0;
};

std::vector<Products> products() {
  std::vector<Products> all;
  for (const auto& r : table("h100_products.csv",
                             "hidden,heads,key_heads,mlp,tp,tokens,products_us,elementwise_us")) {
    const double hidden = r[0], heads = r[1], key_heads = r[2], mlp = r[3], tp = r[4];
    const double head_dim = hidden / heads;
    const double weights = hidden * (2 * heads + 2 * key_heads) * head_dim + 3 * hidden * mlp;
    all.push_back({weights / tp, r[5], r[6] * 1e3});
  }
  return all;
}

struct Fit {
  std::vector<double> coefficients;
  double mean_error = 0;  ///< relative
  double largest_error = 0;
};

/// Least squares on relative errors. `columns`: [coefficient][measurement].
Fit fit(std::vector<std::vector<double>> columns, const std::vector<double>& times) {
  for (auto& column : columns)
    for (std::size_t i = 0; i < times.size(); ++i) column[i] /= times[i];
  Fit out{non_negative_least_squares(columns, std::vector<double>(times.size(), 1.0)), 0, 0};
  for (std::size_t i = 0; i < times.size(); ++i) {
    double predicted = 0;
    for (std::size_t c = 0; c < columns.size(); ++c)
      predicted += out.coefficients[c] * columns[c][i];
    out.mean_error += std::abs(predicted - 1) / static_cast<double>(times.size());
    out.largest_error = std::max(out.largest_error, std::abs(predicted - 1));
  }
  return out;
}

TEST(H100File, HoldsTheRowsOfWhichProductsRunAtHalfTheirRate) {
  const HardwareSpec h100 = read_hardware(hardware_file("h100.toml"));
  const std::vector<Products> all = products();
  ASSERT_EQ(all.size(), 220U);
  std::vector<std::vector<double>> columns(3);  // launches, FLOPs of one row, FLOPs
  std::vector<double> times;
  for (const Products& p : all) {
    columns[0].push_back(1);
    columns[1].push_back(2 * p.weights);
    columns[2].push_back(2 * p.weights * p.rows);
    times.push_back(p.nanos);
  }
  const Fit with = fit(columns, times);
  // hardware/README.md: 127.6 rows at 780 TFLOP/s; 5.6% off on average, 22.7% at most.
  EXPECT_NEAR(with.coefficients[1] / with.coefficients[2], 127.6, 0.05);
  EXPECT_NEAR(1e-3 / with.coefficients[2], 779.9, 0.05);
  EXPECT_NEAR(with.mean_error, 0.056, 0.0005);
  EXPECT_NEAR(with.largest_error, 0.227, 0.0005);
  // The file states as much time at its own rate.
  EXPECT_NEAR(with.coefficients[1] * h100.linear_flops * 1e-9, h100.linear_half_rows, 0.5);
  // A fit in which all rows run at one rate is 10.9% off on average and 42.9% at most.
  const Fit without = fit({columns[0], columns[2]}, times);
  EXPECT_NEAR(without.mean_error, 0.109, 0.0005);
  EXPECT_NEAR(without.largest_error, 0.429, 0.0005);
}

TEST(H100File, HoldsTheFitOfFlashAttention3) {
  constexpr double kTokens = 16384, kQueryHeads = 16, kFlops = 4 * 128;  // of a pair and head
  const HardwareSpec h100 = read_hardware(hardware_file("h100.toml"));
  const auto rows = table("h100_flash3.csv", "L,forward_causal,forward,backward");
  ASSERT_EQ(rows.size(), 6U);
  // TFLOP/s of 16,384 tokens in sequences of L; the paper counts half of the square as causal.
  const auto speed = [&](std::size_t column, bool causal, double work) {
    std::vector<std::vector<double>> columns(2);  // rows and heads, FLOPs of the pairs
    std::vector<double> times;
    for (const auto& r : rows) {
      const double length = r[0];
      const double pairs =
          kTokens / length * (causal ? length * (length + 1) / 2 : length * length);
      const double counted = kTokens * (causal ? length / 2 : length);
      columns[0].push_back(kTokens * kQueryHeads);
      columns[1].push_back(pairs * kQueryHeads * kFlops * work);
      times.push_back(counted * kQueryHeads * kFlops * work / r[column] * 1e-3);
    }
    const Fit found = fit(columns, times);
    EXPECT_LT(found.largest_error, 0.032);
    return std::pair(found.coefficients[0], 1e-3 / found.coefficients[1]);
  };
  const auto [token_head, causal] = speed(1, true, 1);
  EXPECT_NEAR(token_head, h100.attention_token_head_ns, 0.0005);
  EXPECT_NEAR(causal * 1e12, h100.attention_forward_flops, 0.5e12);
  const double full = speed(2, false, 1).second;
  const double backward = speed(3, false, 2.5).second;
  EXPECT_NEAR(backward * causal / full * 1e12, h100.attention_backward_flops, 0.5e12);
}

}  // namespace
}  // namespace slimpack
