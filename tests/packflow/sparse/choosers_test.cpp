// Every method against a recount by definition. Spans are long enough for several blocks, and
// begin and end inside blocks.
#include "slimpack/packflow/sparse/methods.h"

#include <gtest/gtest.h>

#include <limits>
#include <numeric>

#include "tests/packflow/sparse/by_counting.h"

namespace slimpack {
namespace {

using slimpack::testing::Matrix;
using slimpack::testing::random_slice;
using slimpack::testing::sees;
using slimpack::testing::Slice;
using slimpack::testing::taken_until;
using slimpack::testing::total;
using slimpack::testing::weights;

struct Span {
  std::int64_t prefix, queries;
};
/// Whole prompts and slices; with and without whole blocks; shorter than a block; one query.
const Span kSpans[] = {{0, 700}, {300, 500}, {512, 256}, {130, 60}, {0, 1}, {391, 1}};

Slice slice_of(Rng& rng, const Span& span, double spread = 3) {
  return random_slice(rng, span.prefix, span.queries, 1, 1, 8, spread);
}

template <class Method>
KeptKeys chosen(const Method& method, const Slice& s, const QueryBlocks& queries) {
  const at::Tensor k_LD = s.k.select(1, 0);
  return chooser(method, k_LD, queries)(s.q.select(1, 0), 1);
}

std::int64_t block_of(std::int64_t position) {
  return position / kSparseBlock;
}

/// Expects that queries see exactly the keys before their own block for which `seen` holds, which
/// is given positions.
template <class Seen>
void expect_sees(const KeptKeys& kept, const QueryBlocks& queries, Seen seen) {
  for (std::int64_t t = 0; t < queries.tokens(); ++t) {
    const std::int64_t i = queries.prefix() + t;
    for (std::int64_t j = 0; j < block_of(i) * kSparseBlock; ++j)
      ASSERT_EQ(sees(kept, queries, t, j), seen(i, j)) << "query " << i << ", key " << j;
    for (std::int64_t j = block_of(i) * kSparseBlock; j <= i; ++j)
      ASSERT_TRUE(sees(kept, queries, t, j)) << "query " << i << ", key " << j;
  }
}

/// Sums of the rows at these positions, by what `bin` says of (position, key); −1 is no bin.
template <class Bin>
std::vector<double> binned(const Matrix& p, const Slice& s, const std::vector<std::int64_t>& rows,
                           std::int64_t bins, Bin bin) {
  std::vector<double> sums(static_cast<std::size_t>(bins));
  for (const std::int64_t i : rows)
    for (std::int64_t j = 0; j <= i; ++j)
      if (const std::int64_t b = bin(i, j); b >= 0)
        sums[static_cast<std::size_t>(b)] +=
            p[static_cast<std::size_t>(i - s.prefix)][static_cast<std::size_t>(j)];
  return sums;
}

std::vector<std::int64_t> last_positions(const Slice& s, std::int64_t end, std::int64_t rows) {
  std::vector<std::int64_t> positions(static_cast<std::size_t>(rows));
  std::iota(positions.begin(), positions.end(), s.prefix + end - rows);
  return positions;
}

void expect_sampled_columns(const SampledColumns& method, const Slice& s, std::int64_t stride) {
  std::vector<std::int64_t> rows;  // every stride-th of the sequence
  for (std::int64_t i = s.prefix; i < s.keys(); ++i)
    if ((i + 1) % stride == 0) rows.push_back(i);
  if (rows.empty()) rows.push_back(s.keys() - 1);
  const auto window =
      static_cast<std::int64_t>(std::ceil(method.window * static_cast<double>(s.keys())));
  const std::vector<double> sums =
      binned(weights(s, 0), s, rows, s.keys(), [&](std::int64_t i, std::int64_t j) {
        return method.beyond_window && j > i - window ? -1 : j;
      });
  const double target = method.beyond_window ? method.alpha * static_cast<double>(rows.size()) -
                                                   (static_cast<double>(rows.size()) - total(sums))
                                             : method.alpha * total(sums);
  const std::vector<bool> columns = taken_until(sums, target);
  const QueryBlocks queries = s.blocks();
  expect_sees(chosen(method, s, queries), queries, [&](std::int64_t i, std::int64_t j) {
    const std::int64_t first = std::max(s.prefix, block_of(i) * kSparseBlock);
    const bool last_block =
        std::min((block_of(i) + 1) * kSparseBlock, s.keys()) > s.keys() - method.dense_rows;
    return columns[static_cast<std::size_t>(j)] || j >= first - window || last_block;
  });
}

TEST(SampledColumns, AreTheFewestThatReachAlphaWithAWindowAndTheLastRows) {
  Rng rng(1);
  for (const Span& span : kSpans) {
    const Slice s = slice_of(rng, span);
    for (const double alpha : {0.3, 0.95}) {
      expect_sampled_columns({.alpha = alpha}, s, 20);  // 5% of the rows
      expect_sampled_columns({.alpha = alpha, .dense_rows = 0}, s, 20);
    }
    expect_sampled_columns({.rows = 0.25, .window = 0, .dense_rows = 200}, s, 4);
  }
}

TEST(SampledColumns, BeyondTheWindowMakeUpForTheRest) {
  Rng rng(2);
  for (const Span& span : kSpans) {
    const Slice s = slice_of(rng, span);
    for (const double alpha : {0.5, 0.95})
      expect_sampled_columns({.alpha = alpha, .dense_rows = 0, .beyond_window = true}, s, 20);
  }
}

void expect_sampled_blocks(const SampledBlocks& method, const Slice& s) {
  const std::int64_t segments = (s.queries() + method.segment - 1) / method.segment;
  std::vector<std::int64_t> rows;
  for (std::int64_t segment = 0; segment < segments; ++segment) {
    const std::int64_t begin = s.queries() * segment / segments;
    const std::int64_t end = s.queries() * (segment + 1) / segments;
    for (const std::int64_t i : last_positions(s, end, std::min(method.rows, end - begin)))
      rows.push_back(i);
  }
  const Matrix p = weights(s, 0);
  const std::int64_t blocks = block_of(s.keys() - 1) + 1;
  const std::vector<bool> columns =
      taken_until(binned(p, s, rows, blocks, [](auto, std::int64_t j) { return block_of(j); }),
                  method.alpha_columns * static_cast<double>(rows.size()));
  const std::vector<bool> slashes = taken_until(
      binned(p, s, rows, blocks, [](std::int64_t i, std::int64_t j) { return block_of(i - j); }),
      method.alpha_slashes * static_cast<double>(rows.size()));
  const QueryBlocks queries = s.blocks();
  expect_sees(chosen(method, s, queries), queries, [&](std::int64_t i, std::int64_t j) {
    const auto distance = static_cast<std::size_t>(block_of(i) - block_of(j));
    return columns[static_cast<std::size_t>(block_of(j))] || slashes[distance] ||
           slashes[distance - 1];
  });
}

TEST(SampledBlocks, AreTheFewestColumnsAndTheFewestSlashesThatReachTheirShares) {
  Rng rng(3);
  for (const Span& span : kSpans) {
    const Slice s = slice_of(rng, span);
    expect_sampled_blocks({}, s);
    expect_sampled_blocks({200, 50, 0.6, 0.6}, s);
    expect_sampled_blocks({64, 64, 0.3, 0.8}, s);
  }
}

TEST(SampledBlocks, EveryPairAtAChosenDistanceIsSeen) {
  // The threshold for columns is met by one block; of distances all below 256 are to be kept.
  Rng rng(4);
  Slice s = slice_of(rng, {0, 900});
  s.q.fill_(0);  // a query weighs its keys equally, so near distances occur most often
  const QueryBlocks queries = s.blocks();
  const KeptKeys kept = chosen(SampledBlocks{900, 900, 1e-9, 0.5}, s, queries);
  // There are 900·901/2 pairs with weights 1/(i + 1). Distances below 256 hold
  // Σ min(256, i + 1)/(i + 1) = 256 + 256·(H(900) − H(256)) = 577 of 900, those below 128 hold 377:
  // two blocks are chosen.
  for (std::int64_t t = 0; t < 900; ++t)
    for (std::int64_t j = std::max<std::int64_t>(0, t - 255); j <= t; ++j)
      ASSERT_TRUE(sees(kept, queries, t, j)) << t << " " << j;
}

/// √JSD of two distributions.
double distance_between(const std::vector<double>& p, const std::vector<double>& q) {
  double sum = 0;
  for (std::size_t i = 0; i < p.size(); ++i) {
    const double m = (p[i] + q[i]) / 2;
    if (p[i] > 0) sum += p[i] * std::log(p[i] / m) / 2;
    if (q[i] > 0) sum += q[i] * std::log(q[i] / m) / 2;
  }
  return std::sqrt(sum);
}

/// softmax(mean query · mean keys/√D) over blocks of keys up to block `last`.
std::vector<double> pooled(const Slice& s, std::int64_t q_begin, std::int64_t q_end,
                           std::int64_t last) {
  const std::int64_t dim = s.q.size(2);
  const at::Tensor q = s.q.narrow(0, q_begin - s.prefix, q_end - q_begin).select(1, 0).mean(0);
  std::vector<double> p;
  for (std::int64_t b = 0; b <= last; ++b) {
    const std::int64_t begin = b * kSparseBlock;
    const at::Tensor k =
        s.k.slice(0, begin, std::min(begin + kSparseBlock, s.keys())).select(1, 0).mean(0);
    p.push_back(std::exp((q * k).sum().item<double>() / std::sqrt(static_cast<double>(dim))));
  }
  const double sum = total(p);
  for (double& x : p) x /= sum;
  return p;
}

/// Returns whether the prediction was used.
bool expect_flex(const FlexPrefill& method, const Slice& s) {
  const Matrix p = weights(s, 0);
  const std::int64_t count = std::min<std::int64_t>(128, s.queries());
  const std::vector<std::int64_t> rows = last_positions(s, s.queries(), count);
  const std::int64_t blocks = block_of(s.keys() - 1) + 1;
  const auto column = [](auto, std::int64_t j) { return j; };
  const auto distance = [](std::int64_t i, std::int64_t j) { return i - j; };
  std::vector<double> by_block =
      binned(p, s, rows, blocks, [](auto, std::int64_t j) { return block_of(j); });
  for (double& x : by_block) x /= static_cast<double>(count);
  const std::vector<double> estimate = pooled(s, s.keys() - count, s.keys(), blocks - 1);
  const bool predicted = distance_between(estimate, by_block) < method.tau;
  const std::int64_t least = std::max<std::int64_t>(1, (method.min_keys + 127) / 128);
  const auto best = [&](auto bin) {
    const std::vector<double> tokens = binned(p, s, rows, s.keys(), bin);
    const std::vector<bool> reach = taken_until(tokens, method.gamma * static_cast<double>(count));
    const std::int64_t many = std::ranges::count(reach, true) / 128 + 1;
    std::vector<double> sums(static_cast<std::size_t>(blocks));
    for (std::int64_t j = 0; j < s.keys(); ++j)
      sums[static_cast<std::size_t>(block_of(j))] += tokens[static_cast<std::size_t>(j)];
    sums[0] = 1e9;  // always among them; so every further entry counts 1
    const std::int64_t take = std::min(blocks, predicted ? least : std::max(least, many));
    std::vector<bool> taken(sums.size());
    for (std::int64_t i = 0; i < take; ++i) {
      std::size_t largest = sums.size();
      for (std::size_t b = 0; b < sums.size(); ++b)
        if (!taken[b] && (largest == sums.size() || sums[b] > sums[largest])) largest = b;
      taken[largest] = true;
    }
    return taken;
  };
  const std::vector<bool> columns = best(column), slashes = best(distance);
  const QueryBlocks queries = s.blocks();
  std::vector<double> all;  // predicted weights, [block of queries][block of keys]
  for (std::int64_t b = 0; b < queries.count(); ++b) {
    std::vector<double> row =
        pooled(s, queries.queries(b).begin, queries.queries(b).end, queries.number(b));
    row.resize(static_cast<std::size_t>(blocks));
    all.insert(all.end(), row.begin(), row.end());
  }
  const std::vector<bool> extra =
      taken_until(all, predicted ? method.gamma * static_cast<double>(queries.count()) : 0);
  expect_sees(chosen(method, s, queries), queries, [&](std::int64_t i, std::int64_t j) {
    const std::int64_t q = block_of(i), k = block_of(j);
    return columns[static_cast<std::size_t>(k)] || slashes[static_cast<std::size_t>(q - k)] ||
           extra[static_cast<std::size_t>((q - queries.number(0)) * blocks + k)];
  });
  return predicted;
}

TEST(FlexPrefill, ChoosesAsManyBlocksAsTokensReachGamma) {
  Rng rng(5);
  for (const Span& span : kSpans) {
    const Slice s = slice_of(rng, span);
    EXPECT_FALSE(expect_flex({0.9, 0, 0}, s));
    EXPECT_FALSE(expect_flex({0.5, 0, 0}, s));
    EXPECT_FALSE(expect_flex({0.5, 0, 300}, s));
  }
}

TEST(FlexPrefill, ChoosesByMeansWhereTheyPredictTheColumns) {
  // With equal keys inside a block the means predict exactly, and blocks differ from each other.
  Rng rng(6);
  for (const Span& span : {Span{0, 700}, Span{300, 500}}) {
    Slice s = slice_of(rng, span, 1);
    for (std::int64_t j = 0; j < s.keys(); ++j)
      s.k.select(0, j).copy_(s.k.select(0, block_of(j) * kSparseBlock));
    s.q.copy_(s.q.select(0, 0).unsqueeze(0).expand_as(s.q));
    EXPECT_TRUE(expect_flex({0.6, 0.3, 0}, s));
  }
}

void expect_antidiagonals(const XAttention& method, const Slice& s) {
  const std::int64_t stride = method.stride, dim = s.q.size(2);
  const QueryBlocks queries = s.blocks();
  const auto q = s.q.accessor<double, 3>(), k = s.k.accessor<double, 3>();
  const auto product = [&](std::int64_t i, std::int64_t j) {
    double sum = 0;  // what lies outside counts as zeros
    if (i < s.prefix || i >= s.keys() || j >= s.keys()) return sum;
    for (std::int64_t d = 0; d < dim; ++d) sum += q[i - s.prefix][0][d] * k[j][0][d];
    return sum;
  };
  std::vector<std::vector<bool>> seen;
  for (std::int64_t b = 0; b < queries.count(); ++b) {
    const KeyRun own = queries.queries(b);
    std::vector<double> sums(static_cast<std::size_t>(queries.number(b) + 1));
    for (std::int64_t i = own.begin / stride; i <= (own.end - 1) / stride; ++i) {
      std::vector<double> row;
      for (std::int64_t j = 0; j <= i; ++j) {
        double antidiagonal = 0;
        for (std::int64_t a = 0; a < stride; ++a)
          antidiagonal += product(i * stride + stride - 1 - a, j * stride + a);
        row.push_back(std::exp(antidiagonal / std::sqrt(static_cast<double>(dim)) /
                               static_cast<double>(stride)));
      }
      const double all = total(row);
      for (std::int64_t j = 0; j <= i; ++j)
        sums[static_cast<std::size_t>(j * stride / kSparseBlock)] +=
            row[static_cast<std::size_t>(j)] / all;
    }
    const double target =
        method.threshold * total(sums) - sums.front() - (sums.size() > 1 ? sums.back() : 0);
    std::vector<double> others = sums;
    others.front() = others.back() = -1;  // taken at first
    std::vector<bool> taken = taken_until(others, target);
    taken.front() = taken.back() = true;
    seen.push_back(std::move(taken));
  }
  expect_sees(chosen(method, s, queries), queries, [&](std::int64_t i, std::int64_t j) {
    return seen[static_cast<std::size_t>(block_of(i) - queries.number(0))]
               [static_cast<std::size_t>(block_of(j))];
  });
}

TEST(XAttention, IsTheFewestBlocksThatReachTheThresholdByAntidiagonals) {
  Rng rng(7);
  for (const Span& span : kSpans) {
    const Slice s = slice_of(rng, span, 8);
    expect_antidiagonals({8, 0.9}, s);
    expect_antidiagonals({16, 0.6}, s);
  }
}

TEST(XAttention, SlicesOfWholeBlocksChooseWhatTheWholePromptDoes) {
  Rng rng(8);
  const Slice whole = slice_of(rng, {0, 1500}, 8);
  const QueryBlocks all = whole.blocks();
  const KeptKeys expected = chosen(XAttention{}, whole, all);
  for (const auto& [begin, end] : {std::pair{0, 512}, {512, 1280}, {1280, 1500}}) {
    const Slice part{begin, whole.q.slice(0, begin, end), whole.k.slice(0, 0, end),
                     whole.v.slice(0, 0, end)};
    const QueryBlocks queries = part.blocks();
    const KeptKeys kept = chosen(XAttention{}, part, queries);
    for (std::int64_t b = 0; b < queries.count(); ++b)
      EXPECT_EQ(kept.blocks[static_cast<std::size_t>(b)],
                expected.blocks[static_cast<std::size_t>(queries.number(b))]);
  }
}

/// Rows that a method looks at, from its statement of work: pairs for one row of `keys` each.
template <class Method>
double products(const Method& method, const QueryBlocks& queries, std::int64_t thinning) {
  return choosing_work(method, queries, thinning, 1).products;
}

TEST(Choosers, AFirstImpressionLooksAtAnEighthOfTheRows) {
  const QueryBlocks queries(Tokens(8192), Tokens(2048));
  const auto share = [&](const auto& method) {
    return products(method, queries, 8) / products(method, queries, 1);
  };
  EXPECT_NEAR(share(SampledColumns{}), 1 / 8., 0.01);
  EXPECT_NEAR(share(SampledBlocks{}), 1 / 8., 0.01);
  EXPECT_NEAR(share(FlexPrefill{}), 1 / 8., 0.01);
  EXPECT_NEAR(share(XAttention{}), 1 / 8., 0.01);
}

}  // namespace
}  // namespace slimpack
