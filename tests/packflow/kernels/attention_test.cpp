#include "slimpack/packflow/kernels/attention.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "tests/packflow/kernels/attention_by_definition.h"

namespace slimpack {
namespace {

using slimpack::testing::Attention;
using slimpack::testing::by_definition;
using slimpack::testing::Everything;
using slimpack::testing::random_attention;
using slimpack::testing::random_cuts;
using slimpack::testing::relative_error;
using slimpack::testing::SeenKeys;

/// Attention of a whole sequence: query t sees keys 0 to t, or the last `window` of these.
Everything naive(const Attention& a, std::int64_t window = 0) {
  return by_definition(a, [&](std::int64_t t) {
    return SeenKeys(window > 0 ? std::max<std::int64_t>(0, t + 1 - window) : 0, t + 1);
  });
}

Everything sliced(const Attention& a, const std::vector<std::int64_t>& forward_cuts,
                  const std::vector<std::int64_t>& backward_cuts, std::int64_t window = 0) {
  std::vector<at::Tensor> out, lse;
  for (std::size_t i = 0; i + 1 < forward_cuts.size(); ++i) {
    const std::int64_t begin = forward_cuts[i], end = forward_cuts[i + 1];
    AttentionResult slice =
        attention_forward(a.q.narrow(0, begin, end - begin),
                          {a.k.narrow(0, 0, end), a.v.narrow(0, 0, end)}, Tokens(begin), window);
    out.push_back(slice.out_TND);
    lse.push_back(slice.lse_TN);
  }
  const AttentionResult whole{at::cat(out), at::cat(lse)};
  Everything r{whole.out_TND, whole.lse_TN, at::zeros_like(a.q), at::zeros_like(a.k),
               at::zeros_like(a.v)};
  for (std::size_t i = backward_cuts.size() - 1; i-- > 0;) {
    const std::int64_t begin = backward_cuts[i], end = backward_cuts[i + 1];
    const auto rows = [&](const at::Tensor& t) { return t.narrow(0, begin, end - begin); };
    const AttentionGradients slice = attention_backward(
        rows(a.dout), rows(a.q), {a.k.narrow(0, 0, end), a.v.narrow(0, 0, end)},
        {rows(whole.out_TND), rows(whole.lse_TN)}, Tokens(begin), {r.dk, r.dv}, window);
    rows(r.dq).copy_(slice.dq_TND);
    rows(r.dk).add_(slice.dk_TGD);
    rows(r.dv).add_(slice.dv_TGD);
  }
  return r;
}

/// Softmax weights sum to 1, so every value is a sum of at most `tokens` terms of order 1.
constexpr double kBound = 1e-12;

double worst_error(const Everything& actual, const Everything& expected) {
  return std::max({relative_error(actual.out, expected.out),
                   relative_error(actual.lse, expected.lse), relative_error(actual.dq, expected.dq),
                   relative_error(actual.dk, expected.dk), relative_error(actual.dv, expected.dv)});
}

/// dq and dk are exactly zero in theory when a token sees itself alone; then compare absolutely.
double worst_difference(const Everything& actual, const Everything& expected) {
  const auto difference = [](const at::Tensor& a, const at::Tensor& b) {
    return (a - b).abs().max().item<double>();
  };
  return std::max({difference(actual.out, expected.out), difference(actual.lse, expected.lse),
                   difference(actual.dq, expected.dq), difference(actual.dk, expected.dk),
                   difference(actual.dv, expected.dv)});
}

RC_GTEST_PROP(Attention, AnyCutsForwardAndBackwardGiveTheGradientsOfTheUncutSequence,
              (std::uint64_t seed)) {
  Rng rng(seed);
  const auto tokens = 1 + static_cast<std::int64_t>(rng.below(48));
  const Attention a = random_attention(rng, tokens, 1 + static_cast<std::int64_t>(rng.below(3)),
                                       1 + static_cast<std::int64_t>(rng.below(3)),
                                       2 * (1 + static_cast<std::int64_t>(rng.below(9))));
  RC_ASSERT(worst_difference(sliced(a, random_cuts(rng, tokens), random_cuts(rng, tokens)),
                             naive(a)) < 1e-11);
}

RC_GTEST_PROP(Attention, AnyCutsGiveTheGradientsOfTheUncutSequenceWithinAnyWindow,
              (std::uint64_t seed)) {
  Rng rng(seed);
  const auto up_to = [&](std::uint64_t most) {
    return 1 + static_cast<std::int64_t>(rng.below(most));
  };
  // Windows of one key, below and above the blocks' 64 queries, and longer than the sequence.
  const std::int64_t tokens = up_to(rng.below(2) == 0 ? 40 : 300);
  const std::int64_t window = rng.below(4) == 0 ? 1 : up_to(tokens + 8);
  const Attention a = random_attention(rng, tokens, up_to(2), up_to(3), 4);
  const Everything expected = naive(a, window);
  RC_ASSERT(worst_difference(sliced(a, random_cuts(rng, tokens), random_cuts(rng, tokens), window),
                             expected) < 1e-11);
}

TEST(Attention, AWindowAsLongAsTheSequenceChangesNoBit) {
  Rng rng(6);
  const Attention a = random_attention(rng, 30, 2, 2, 8);
  const Everything plain = sliced(a, {0, 11, 30}, {0, 17, 30});
  const Everything wide = sliced(a, {0, 11, 30}, {0, 17, 30}, 30);
  EXPECT_TRUE(wide.out.equal(plain.out) && wide.dq.equal(plain.dq) && wide.dk.equal(plain.dk));
}

TEST(Attention, WideWindowsTakeTheirLongerBlocks) {
  // Blocks of 192 queries from a window of 1024 on.
  Rng rng(7);
  const Attention a = random_attention(rng, 1500, 1, 1, 4);
  EXPECT_LT(worst_error(sliced(a, {0, 900, 1500}, {0, 1100, 1500}, 1024), naive(a, 1024)), kBound);
}

TEST(Attention, LongSlicesCrossTheKernelsBlocksAndStillAgree) {
  // The kernel cuts queries into blocks of 32, 64 (from 192) and 256 (from 768) and keys into
  // blocks of 512; these cuts take every one of them, with and without a prefix.
  Rng rng(1);
  const Attention a = random_attention(rng, 1300, 1, 2, 4);
  const Everything expected = naive(a);
  EXPECT_LT(worst_error(sliced(a, {0, 200, 201, 400, 1300}, {0, 800, 831, 1299, 1300}), expected),
            kBound);
  EXPECT_LT(worst_error(sliced(a, {0, 1300}, {0, 1300}), expected), kBound);
}

TEST(Attention, SlicesOfOneTokenAgree) {
  Rng rng(2);
  const Attention a = random_attention(rng, 9, 2, 2, 8);
  const std::vector<std::int64_t> singles{0, 1, 2, 3, 4, 5, 6, 7, 8, 9};
  EXPECT_LT(worst_error(sliced(a, singles, singles), naive(a)), kBound);
}

TEST(Attention, ASequenceOfOneTokenAttendsToItself) {
  // One key: its weight is 1, so out = v and dv = dout, and scores have no gradient.
  Rng rng(3);
  const Attention a = random_attention(rng, 1, 2, 1, 4);
  const Everything r = sliced(a, {0, 1}, {0, 1});
  EXPECT_LT(relative_error(r.out, a.v), 1e-15);
  EXPECT_LT(relative_error(r.dv, a.dout), 1e-15);
  EXPECT_LT(r.dq.abs().max().item<double>(), 1e-14);
  EXPECT_LT(r.dk.abs().max().item<double>(), 1e-14);
}

TEST(Attention, TheGradientsAreTheDerivativesOfTheOutput) {
  Rng rng(4);
  Attention a = random_attention(rng, 6, 1, 2, 4);
  const auto loss = [&] { return slimpack::testing::inner_product(naive(a).out, a.dout); };
  const Everything r = sliced(a, {0, 2, 6}, {0, 5, 6});
  EXPECT_LT(relative_error(r.dq, slimpack::testing::numerical_gradient(a.q, loss)), 1e-8);
  EXPECT_LT(relative_error(r.dk, slimpack::testing::numerical_gradient(a.k, loss)), 1e-8);
  EXPECT_LT(relative_error(r.dv, slimpack::testing::numerical_gradient(a.v, loss)), 1e-8);
}

TEST(Attention, GradientsOfThePrefixAreAddedToWhatLaterSlicesLeft) {
  Rng rng(5);
  const Attention a = random_attention(rng, 8, 1, 1, 4);
  const AttentionResult forward = attention_forward(a.q.narrow(0, 5, 3), {a.k, a.v}, Tokens(5));
  const auto backward = [&](double left) {
    KeysValues accumulated{at::full_like(a.k, left), at::full_like(a.v, left)};
    static_cast<void>(attention_backward(a.dout.narrow(0, 5, 3), a.q.narrow(0, 5, 3), {a.k, a.v},
                                         forward, Tokens(5), accumulated));
    return accumulated;
  };
  const KeysValues from_zero = backward(0), from_two = backward(2);
  EXPECT_LT(relative_error(from_two.k.narrow(0, 0, 5), from_zero.k.narrow(0, 0, 5) + 2), 1e-14);
  EXPECT_LT(relative_error(from_two.v.narrow(0, 0, 5), from_zero.v.narrow(0, 0, 5) + 2), 1e-14);
  // The slice's own rows are returned, never added here.
  EXPECT_TRUE(from_two.k.narrow(0, 5, 3).eq(2).all().item<bool>());
}

}  // namespace
}  // namespace slimpack
