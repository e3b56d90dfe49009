// FlashAttention 2, 3 and 4 against their stand-ins, on the pretended device: what the engine gives
// them and takes from them. The kernels themselves run on GPUs alone.
#include <gtest/gtest.h>

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <memory>

#include "slimpack/packflow/device/device.h"
#include "slimpack/packflow/device/tensor.h"
#include "slimpack/packflow/kernels/flash_kernel.h"
#include "tests/packflow/kernels/attention_by_definition.h"
#include "tests/packflow/support/pretended_device.h"
#include "tests/support/expect_error.h"
#include "tests/support/temp_folder.h"

namespace slimpack {
namespace {

using slimpack::testing::Attention;
using slimpack::testing::by_definition;
using slimpack::testing::Everything;
using slimpack::testing::kPretended;
using slimpack::testing::random_tensor;
using slimpack::testing::relative_error;
using slimpack::testing::SeenKeys;

// Results are rounded to 8 bits, 2⁻⁹ each, and gradients are computed from a rounded output.
constexpr double kBound = 0x1p-7;

/// bf16 numbers in fp64.
Attention random_call(Rng& rng, std::int64_t queries, std::int64_t keys, std::int64_t key_heads,
                      std::int64_t group, std::int64_t dim) {
  const auto random = [&](std::int64_t rows, std::int64_t heads) {
    return random_tensor(rng, {rows, heads, dim}).to(at::kBFloat16).to(at::kDouble);
  };
  return {random(queries, key_heads * group), random(keys, key_heads), random(keys, key_heads),
          random(queries, key_heads * group)};
}

at::Tensor there(const at::Tensor& x) {
  return x.to(at::kBFloat16).to(kPretended);
}
/// Head by head, as the store keeps keys and values.
at::Tensor head_major(const at::Tensor& x_TGD) {
  return there(x_TGD.transpose(0, 1).contiguous()).transpose(0, 1);
}
at::Tensor here(const at::Tensor& x) {
  return x.cpu().to(at::kDouble);
}

void expect_near(const AttentionResult& r, const AttentionGradients& g, const Everything& e) {
  EXPECT_LT(relative_error(here(r.out_TND), e.out), kBound);
  EXPECT_LT(relative_error(here(r.lse_TN), e.lse), 1e-5);
  EXPECT_LT(relative_error(here(g.dq_TND), e.dq), kBound);
  EXPECT_LT(relative_error(here(g.dk_TGD), e.dk), kBound);
  EXPECT_LT(relative_error(here(g.dv_TGD), e.dv), kBound);
}

/// Every release, by its number.
class EveryKernel : public ::testing::TestWithParam<int> {
 protected:
  EveryKernel() {
    use_own_queue(kPretended);
    if (GetParam() == 2) kernel_ = flash_attention_2();
    if (GetParam() == 3) kernel_ = flash_attention_3();
    if (GetParam() == 4) kernel_ = std::make_unique<FlashAttention4>(FA4_STAND_IN);
  }
  [[nodiscard]] const FlashKernel& kernel() const { return *kernel_; }

 private:
  std::unique_ptr<const FlashKernel> kernel_;
};

INSTANTIATE_TEST_SUITE_P(FlashAttention, EveryKernel, ::testing::Values(2, 3, 4));

TEST_P(EveryKernel, GivesAttentionByDefinitionUnderEveryMask) {
  Rng rng(1);
  for (const Mask mask : {Mask::kNone, Mask::kCausal, Mask::kCausalEnd})
    for (const std::int64_t group : {1, 4}) {
      const std::int64_t keys = mask == Mask::kCausal ? 9 : 40;
      const Attention a = random_call(rng, 20, keys, 2, group, 16);
      const KeysValues kv{head_major(a.k), head_major(a.v)};
      ASSERT_TRUE(kernel().supports(kv.k, {2 * group, 2, 16}));
      const AttentionResult r = kernel().attend(there(a.q), kv, mask);
      const AttentionGradients g =
          kernel().attend_backward({there(a.dout), there(a.q), r.out_TND, r.lse_TN}, kv, mask);
      expect_near(r, g, by_definition(a, [&](std::int64_t t) {
                    return mask == Mask::kNone     ? keys
                           : mask == Mask::kCausal ? std::min(t + 1, keys)
                                                   : keys - 20 + t + 1;
                  }));
    }
}

TEST_P(EveryKernel, TakesSeveralSequencesWithPrefixesInOneCall) {
  Rng rng(2);
  const std::vector<std::int64_t> queries{5, 1, 17, 2}, keys{5, 30, 40, 2};
  const Attention a = random_call(rng, 25, 77, 2, 4, 16);
  const KeysValues kv{head_major(a.k), there(a.v)};
  ASSERT_TRUE(kernel().supports(kv.k, {8, 2, 16}));
  JoinedSequences sequences(queries, keys);
  put_on(sequences.tensors(), kPretended);
  const AttentionResult r = kernel().attend(there(a.q), kv, sequences);
  const AttentionGradients g =
      kernel().attend_backward({there(a.dout), there(a.q), r.out_TND, r.lse_TN}, kv, sequences);
  std::int64_t query = 0, key = 0;
  for (std::size_t s = 0; s < queries.size(); ++s) {
    const std::int64_t rows = queries[s], seen = keys[s];
    const auto own = [&](const at::Tensor& x) { return x.narrow(0, query, rows); };
    const auto own_keys = [&](const at::Tensor& x) { return x.narrow(0, key, seen); };
    expect_near({own(r.out_TND), own(r.lse_TN)},
                {own(g.dq_TND), own_keys(g.dk_TGD), own_keys(g.dv_TGD)},
                by_definition(Attention{own(a.q).contiguous(), own_keys(a.k).contiguous(),
                                        own_keys(a.v).contiguous(), own(a.dout).contiguous()},
                              [&](std::int64_t t) { return seen - rows + t + 1; }));
    query += rows;
    key += seen;
  }
}

/// Releases whose kernels take windows.
class WindowKernel : public EveryKernel {};

INSTANTIATE_TEST_SUITE_P(FlashAttention, WindowKernel, ::testing::Values(2, 3));

TEST_P(WindowKernel, GivesAttentionByDefinitionWithinAWindow) {
  Rng rng(3);
  for (const std::int64_t window : {2, 3, 25, 60}) {  // with one key, dq and dk are 0
    const Attention a = random_call(rng, 20, 40, 2, 4, 16);
    const KeysValues kv{head_major(a.k), head_major(a.v)};
    ASSERT_TRUE(kernel().supports(kv.k, {8, 2, 16, true}));
    const Mask mask(Mask::kCausalEnd, window);
    const AttentionResult r = kernel().attend(there(a.q), kv, mask);
    const AttentionGradients g =
        kernel().attend_backward({there(a.dout), there(a.q), r.out_TND, r.lse_TN}, kv, mask);
    const auto seen = [&](std::int64_t t) {
      return SeenKeys(std::max<std::int64_t>(0, 20 + t + 1 - window), 20 + t + 1);
    };
    expect_near(r, g, by_definition(a, seen));
    // Two sequences in one call: a window ends at the first key of each.
    const Attention twice{at::cat({a.q, a.q}), at::cat({a.k, a.k}), at::cat({a.v, a.v}),
                          at::cat({a.dout, a.dout})};
    JoinedSequences sequences({20, 20}, {40, 40});
    put_on(sequences.tensors(), kPretended);
    const KeysValues both{there(twice.k), there(twice.v)};
    const AttentionResult joined = kernel().attend(there(twice.q), both, sequences, window);
    const AttentionGradients gradients =
        kernel().attend_backward({there(twice.dout), there(twice.q), joined.out_TND, joined.lse_TN},
                                 both, sequences, window);
    const auto second = [](const at::Tensor& x) {
      return x.narrow(0, x.size(0) / 2, x.size(0) / 2);
    };
    expect_near({second(joined.out_TND), second(joined.lse_TN)},
                {second(gradients.dq_TND), second(gradients.dk_TGD), second(gradients.dv_TGD)},
                by_definition(a, seen));
  }
}

TEST(FlashAttention4, TakesTheHeadsThatItWasCompiledForInBf16) {
  const FlashAttention4 kernel(FA4_STAND_IN);
  const at::Tensor bf16 = at::empty({1}, at::dtype(at::kBFloat16).device(kPretended));
  const at::Tensor fp32 = at::empty({1}, at::dtype(at::kFloat).device(kPretended));
  EXPECT_TRUE(kernel.supports(bf16, {8, 2, 16}));
  EXPECT_EQ(kernel.refusal(bf16, {8, 2, 16}), "");
  EXPECT_FALSE(kernel.supports(fp32, {8, 2, 16}));
  EXPECT_EQ(kernel.refusal(fp32, {8, 2, 16}), "it takes bf16 alone");
  EXPECT_EQ(kernel.refusal(bf16, {8, 2, 16, true}), "it has no kernels for windows");
  EXPECT_FALSE(kernel.supports(bf16, {6, 2, 16}));  // three query heads for each key head
  EXPECT_EQ(kernel.refusal(bf16, {6, 2, 16}),
            std::string(FA4_STAND_IN) +
                " has no kernels for heads of 16 with 6 query heads for 2 key heads");
}

/// Undone at the end of a test.
class DeterministicAlgorithms {
 public:
  DeterministicAlgorithms() { set_deterministic(kPretended, true); }
  DeterministicAlgorithms(const DeterministicAlgorithms&) = delete;
  DeterministicAlgorithms& operator=(const DeterministicAlgorithms&) = delete;
  ~DeterministicAlgorithms() { set_deterministic(kPretended, false); }
};

TEST(FlashAttention4, DeterministicAlgorithmsTakeTheBackwardOfFixedOrder) {
  // The library is open already, so this is its handle again.
  const FlashAttention4 kernel(FA4_STAND_IN);
  const auto fixed_order_calls = reinterpret_cast<int (*)()>(
      ::dlsym(::dlopen(FA4_STAND_IN, RTLD_NOW), "fa4_stand_in_fixed_order_calls"));
  Rng rng(3);
  const Attention a = random_call(rng, 6, 9, 1, 2, 16);
  const KeysValues kv{there(a.k), there(a.v)};
  ASSERT_TRUE(kernel.supports(kv.k, {2, 1, 16}));
  const AttentionResult r = kernel.attend(there(a.q), kv, Mask::kCausalEnd);
  const QueryRows rows{there(a.dout), there(a.q), r.out_TND, r.lse_TN};
  const int before = fixed_order_calls();
  const AttentionGradients any = kernel.attend_backward(rows, kv, Mask::kCausalEnd);
  EXPECT_EQ(fixed_order_calls(), before);
  const DeterministicAlgorithms on;
  const AttentionGradients fixed = kernel.attend_backward(rows, kv, Mask::kCausalEnd);
  EXPECT_EQ(fixed_order_calls(), before + 1);
  EXPECT_TRUE(here(fixed.dk_TGD).equal(here(any.dk_TGD)));
}

TEST(FlashAttention4, AnErrorOfACallEndsTheRunWithItsName) {
  const FlashAttention4 kernel(FA4_STAND_IN);
  const at::Tensor q = at::zeros({4, 2, 16}, at::dtype(at::kBFloat16).device(kPretended));
  ASSERT_TRUE(kernel.supports(q, {2, 2, 16}));
  // Bounds beyond the rows.
  JoinedSequences sequences({5}, {5});
  put_on(sequences.tensors(), kPretended);
  expect_run_failed(
      [&] {
        static_cast<void>(kernel.attend(q, {q, q}, sequences));
      },
      {"FlashAttention-4 failed forward", "invalid argument", "SLIMPACK_FA4="});
}

TEST(FlashAttention4, ALibraryThatIsBrokenOrOfAnotherVersionIsRefusedInALine) {
  const TempFolder folder;
  const auto broken = folder / "libslimpack_fa4.so";
  put_file(broken, "no library");
  const auto expect_refused = [](const std::filesystem::path& file, std::string_view why) {
    expect_invalid_input([&] { const FlashAttention4 opened(file); },
                         {file.string(), why, "make fa4"});
  };
  expect_refused(broken, "cannot be opened");
  expect_refused(folder / "missing.so", "cannot be opened");
  expect_refused(FA4_OF_ANOTHER_VERSION, "has interface 99, this program needs 1");
}

}  // namespace
}  // namespace slimpack
