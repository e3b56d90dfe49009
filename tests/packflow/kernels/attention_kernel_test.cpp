#include "slimpack/packflow/kernels/attention_kernel.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>
#include <torch/library.h>

#include <algorithm>
#include <functional>

#include "slimpack/packflow/kernels/flash_kernel.h"
#include "slimpack/packflow/kernels/libtorch_attention.h"
#include "tests/packflow/kernels/attention_by_definition.h"

namespace slimpack {
namespace {

using slimpack::testing::Attention;
using slimpack::testing::by_definition;
using slimpack::testing::Everything;
using slimpack::testing::random_tensor;
using slimpack::testing::relative_error;
using slimpack::testing::SeenKeys;

constexpr double kBound = 1e-11;

// FlashAttention-2 runs on CUDA devices alone. So that its calls are tested without one, these
// stand in for it on the CPU: what its documentation says of layouts and masks, by definition.
// Boxed, because releases of libtorch differ in the last arguments.

at::Tensor heads_first(const at::Tensor& lse_TN) {
  return lse_TN.transpose(0, 1).contiguous();
}

/// [first row, end) of every sequence: bounds, or all rows of the one in a batch.
std::vector<std::int64_t> ends_of(const c10::IValue& bounds, std::int64_t rows) {
  const at::Tensor ends = bounds.isNone() ? at::Tensor() : bounds.toTensor();
  if (!ends.defined()) return {0, rows};
  TORCH_CHECK(ends.scalar_type() == at::kInt && ends.is_contiguous());
  std::vector<std::int64_t> result;
  for (std::int64_t i = 0; i < ends.numel(); ++i) result.push_back(ends[i].item<int>());
  TORCH_CHECK(result.back() == rows, "rows beyond the last sequence");
  return result;
}

/// The arguments that both passes have; without batch dimension.
struct FlashCall {
  Attention a;
  std::vector<std::int64_t> query_ends, key_ends;
  bool causal = false;
  std::int64_t left = 0;  ///< keys before its own that a query sees
  bool batched = false;

  FlashCall(at::Tensor q, at::Tensor k, at::Tensor v, const c10::IValue& query_bounds,
            const c10::IValue& key_bounds, bool is_causal, const c10::IValue& window_left)
      : a{std::move(q), std::move(k), std::move(v), {}},
        causal(is_causal),
        left(window_left.isNone() ? INT32_MAX : window_left.toInt()),
        batched(a.q.dim() == 4) {
    for (at::Tensor* t : {&a.q, &a.k, &a.v}) {
      TORCH_CHECK(t->dim() == (batched ? 4 : 3) && t->stride(-1) == 1);
      if (batched) *t = t->squeeze(0);
    }
    query_ends = ends_of(query_bounds, a.q.size(0));
    key_ends = ends_of(key_bounds, a.k.size(0));
    a.dout = at::zeros_like(a.q);
  }

  /// Causal is aligned bottom-right.
  [[nodiscard]] Everything run() const {
    Everything all{at::zeros_like(a.q), at::zeros({a.q.size(0), a.q.size(1)}, at::kDouble),
                   at::zeros_like(a.q), at::zeros_like(a.k), at::zeros_like(a.v)};
    for (std::size_t s = 0; s + 1 < query_ends.size(); ++s) {
      const auto queries = [&](const at::Tensor& t) {
        return t.slice(0, query_ends[s], query_ends[s + 1]);
      };
      const auto keys = [&](const at::Tensor& t) {
        return t.slice(0, key_ends[s], key_ends[s + 1]);
      };
      const std::int64_t rows = queries(a.q).size(0), seen = keys(a.k).size(0);
      const Everything one =
          by_definition(Attention{queries(a.q).contiguous(), keys(a.k).contiguous(),
                                  keys(a.v).contiguous(), queries(a.dout).contiguous()},
                        [&](std::int64_t t) {
                          const std::int64_t end = causal ? seen - rows + t + 1 : seen;
                          return SeenKeys(std::max<std::int64_t>(0, end - 1 - left), end);
                        });
      queries(all.out).copy_(one.out);
      queries(all.lse).copy_(one.lse);
      queries(all.dq).copy_(one.dq);
      keys(all.dk).copy_(one.dk);
      keys(all.dv).copy_(one.dv);
    }
    return all;
  }
};

void forward_stand_in(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const auto arguments = torch::jit::pop(*stack, op.schema().arguments().size());
  const auto& i = arguments;
  const FlashCall call(i[0].toTensor(), i[1].toTensor(), i[2].toTensor(), i[3], i[4], i[8].toBool(),
                       i[11]);
  const Everything r = call.run();
  const at::Tensor lse = heads_first(r.lse);
  torch::jit::push(*stack, call.batched ? r.out.unsqueeze(0) : r.out,
                   call.batched ? lse.unsqueeze(0) : lse, at::empty({2}), at::empty({0}),
                   at::empty({0}));
}

void backward_stand_in(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const auto i = torch::jit::pop(*stack, op.schema().arguments().size());
  FlashCall call(i[1].toTensor(), i[2].toTensor(), i[3].toTensor(), i[6], i[7], i[11].toBool(),
                 i[15]);
  const auto row_major = [&](const at::Tensor& t) { return call.batched ? t.squeeze(0) : t; };
  call.a.dout = row_major(i[0].toTensor());
  const Everything r = call.run();
  // Backward is given the very results of forward.
  TORCH_CHECK(i[5].toTensor().is_contiguous());
  TORCH_CHECK(relative_error(row_major(i[5].toTensor()), heads_first(r.lse)) < kBound);
  TORCH_CHECK(relative_error(row_major(i[4].toTensor()), r.out) < kBound);
  const auto result = [&](const at::Tensor& t) { return call.batched ? t.unsqueeze(0) : t; };
  torch::jit::push(*stack, result(r.dq), result(r.dk), result(r.dv));
}

TORCH_LIBRARY_IMPL(aten, CPU, m) {
  m.impl("_flash_attention_forward",
         torch::CppFunction::makeFromBoxedFunction<&forward_stand_in>());
  m.impl("_flash_attention_backward",
         torch::CppFunction::makeFromBoxedFunction<&backward_stand_in>());
}

struct Kernel {
  std::string name;
  std::function<AttentionResult(const at::Tensor&, const KeysValues&, Mask)> forward;
  std::function<AttentionGradients(const QueryRows&, const KeysValues&, Mask)> backward;
  std::vector<Mask> masks;
};

const std::vector<Kernel>& kernels() {
  static const std::vector<Kernel> all{
      {"cpu",
       cpu_attend,
       cpu_attend_backward,
       {Mask::kNone, Mask::kCausal, Mask(Mask::kCausalEnd, 1), Mask(Mask::kCausalEnd, 7)}},
      {"composed",
       composed_attend,
       composed_attend_backward,
       {Mask::kNone, Mask::kCausal, Mask::kCausalEnd, Mask(Mask::kCausalEnd, 1),
        Mask(Mask::kCausalEnd, 7)}},
      {"flash",
       [](const at::Tensor& q, const KeysValues& kv, Mask mask) {
         return flash_attention_2()->attend(q, kv, mask);
       },
       [](const QueryRows& rows, const KeysValues& kv, Mask mask) {
         return flash_attention_2()->attend_backward(rows, kv, mask);
       },
       {Mask::kNone, Mask::kCausal, Mask::kCausalEnd, Mask(Mask::kCausalEnd, 1),
        Mask(Mask::kCausalEnd, 7)}}};
  return all;
}

/// The keys that query t sees.
SeenKeys seen(Mask mask, std::int64_t t, std::int64_t queries, std::int64_t keys) {
  switch (mask.kind) {
    case Mask::kNone:
      return keys;
    case Mask::kCausal:
      return std::min(t + 1, keys);
    case Mask::kCausalEnd: {
      const std::int64_t end = keys - queries + t + 1;
      return {mask.window > 0 ? std::max<std::int64_t>(0, end - mask.window) : 0, end};
    }
  }
  return 0;
}

double distance(const at::Tensor& a, const at::Tensor& b) {
  return (a - b).abs().max().item<double>();
}

double largest_error(const Kernel& kernel, const Attention& a, Mask mask) {
  const Everything expected =
      by_definition(a, [&](std::int64_t t) { return seen(mask, t, a.q.size(0), a.k.size(0)); });
  const AttentionResult forward = kernel.forward(a.q, {a.k, a.v}, mask);
  const AttentionGradients g =
      kernel.backward({a.dout, a.q, forward.out_TND, forward.lse_TN}, {a.k, a.v}, mask);
  return std::max({distance(forward.out_TND, expected.out), distance(forward.lse_TN, expected.lse),
                   distance(g.dq_TND, expected.dq), distance(g.dk_TGD, expected.dk),
                   distance(g.dv_TGD, expected.dv)});
}

Attention random_block(Rng& rng, std::int64_t queries, std::int64_t keys, std::int64_t heads,
                       std::int64_t sharing, std::int64_t dim) {
  return {random_tensor(rng, {queries, heads * sharing, dim}),
          random_tensor(rng, {keys, heads, dim}), random_tensor(rng, {keys, heads, dim}),
          random_tensor(rng, {queries, heads * sharing, dim})};
}

RC_GTEST_PROP(AttentionKernels, GiveAttentionByDefinitionUnderEveryMask, (std::uint64_t seed)) {
  Rng rng(seed);
  const auto up_to = [&](std::uint64_t most) {
    return 1 + static_cast<std::int64_t>(rng.below(most));
  };
  const std::int64_t few = up_to(24), more = few + static_cast<std::int64_t>(rng.below(16));
  const std::int64_t heads = up_to(3), sharing = up_to(3), dim = 2 * up_to(6);
  for (const Kernel& kernel : kernels())
    for (const Mask mask : kernel.masks) {
      const bool causal = mask == Mask::kCausal;
      const Attention a =
          random_block(rng, causal ? more : few, causal ? few : more, heads, sharing, dim);
      RC_ASSERT(largest_error(kernel, a, mask) < kBound);
    }
}

TEST(AttentionKernels, ComposedBlocksOfQueriesKeepTheirMasks) {
  // 256 queries are scored at a time; 600 are three blocks.
  Rng rng(1);
  const Kernel& composed = kernels()[1];
  EXPECT_LT(largest_error(composed, random_block(rng, 600, 600, 1, 2, 4), Mask::kCausal), kBound);
  EXPECT_LT(largest_error(composed, random_block(rng, 600, 700, 1, 2, 4), Mask::kCausalEnd),
            kBound);
}

TEST(AttentionKernels, ComposedBf16IsAsNearAsItsNumbersAllow) {
  // Computed in fp32 from the same bf16 numbers; the results are rounded to 8 bits: 2^-9 each.
  Rng rng(2);
  const Attention a = random_block(rng, 40, 60, 2, 2, 8);
  const auto rounded = [](const at::Tensor& t) { return t.to(at::kBFloat16); };
  const Attention exact{rounded(a.q).to(at::kDouble), rounded(a.k).to(at::kDouble),
                        rounded(a.v).to(at::kDouble), a.dout};
  const Everything expected = by_definition(exact, [](std::int64_t) { return 60; });
  const AttentionResult r =
      composed_attend(rounded(a.q), {rounded(a.k), rounded(a.v)}, Mask::kNone);
  EXPECT_EQ(r.out_TND.scalar_type(), at::kBFloat16);
  EXPECT_EQ(r.lse_TN.scalar_type(), at::kFloat);
  EXPECT_LT(relative_error(r.out_TND, expected.out), 0x1p-8);
  EXPECT_LT(relative_error(r.lse_TN, expected.lse), 1e-6);
}

TEST(AttentionKernels, MergedBf16ResultsAreRoundedOnce) {
  // Half a unit in the last of 8 bits, 2⁻⁸ of the result, and fp32's rounding of both addends.
  // Shares in bf16 would give up to three times that.
  Rng rng(4);
  const auto part = [&] {
    return AttentionResult{random_tensor(rng, {500, 3, 8}).to(at::kBFloat16),
                           random_tensor(rng, {500, 3}).to(at::kFloat)};
  };
  const AttentionResult a = part(), b = part();
  const auto wide = [](const at::Tensor& t) { return t.to(at::kDouble); };
  const at::Tensor lse = at::logaddexp(wide(a.lse_TN), wide(b.lse_TN));
  const auto addend = [&](const AttentionResult& r) {
    return wide(r.out_TND) * (wide(r.lse_TN) - lse).exp().unsqueeze(-1);
  };
  const at::Tensor expected = addend(a) + addend(b);
  const at::Tensor allowed = 0x1p-8 * expected.abs() + 1e-6 * (addend(a).abs() + addend(b).abs());
  // The first is reused, also where it is rows of a larger result.
  const at::Tensor all = at::cat({a.out_TND, a.out_TND});
  const AttentionResult r = merged({all.narrow(0, 500, 500), a.lse_TN}, b);
  EXPECT_EQ(r.out_TND.scalar_type(), at::kBFloat16);
  EXPECT_TRUE((wide(r.out_TND) - expected).abs().le(allowed).all().item<bool>());
  EXPECT_TRUE(all.narrow(0, 500, 500).equal(r.out_TND));
  EXPECT_TRUE(all.narrow(0, 0, 500).equal(a.out_TND));
}

TEST(AttentionKernels, FlashTakesSeveralSequencesInOneCall) {
  Rng rng(3);
  const std::vector<std::int64_t> lengths{5, 1, 17, 2};
  const JoinedSequences sequences(lengths, lengths);
  const Attention a = random_block(rng, 25, 25, 2, 2, 8);
  const KeysValues kv{a.k, a.v};
  const std::unique_ptr<const FlashKernel> flash = flash_attention_2();
  const AttentionResult all = flash->attend(a.q, kv, sequences);
  const AttentionGradients g =
      flash->attend_backward({a.dout, a.q, all.out_TND, all.lse_TN}, kv, sequences);
  std::int64_t row = 0;
  for (const std::int64_t length : lengths) {
    const auto own = [&](const at::Tensor& t) { return t.narrow(0, row, length).contiguous(); };
    const Everything expected = by_definition(Attention{own(a.q), own(a.k), own(a.v), own(a.dout)},
                                              [](std::int64_t t) { return t + 1; });
    EXPECT_LT(distance(own(all.out_TND), expected.out), kBound);
    EXPECT_LT(distance(own(all.lse_TN), expected.lse), kBound);
    EXPECT_LT(distance(own(g.dq_TND), expected.dq), kBound);
    EXPECT_LT(distance(own(g.dk_TGD), expected.dk), kBound);
    EXPECT_LT(distance(own(g.dv_TGD), expected.dv), kBound);
    row += length;
  }
}

}  // namespace
}  // namespace slimpack
