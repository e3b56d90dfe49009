// Predicted memory of a prompt against what libtorch's allocator gives out while it runs.
#include <ATen/ATen.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "slimpack/cost/prompt_memory.h"
#include "slimpack/packflow/device/memory_tracker.h"
#include "slimpack/packflow/language/cached_sequence.h"
#include "tests/packflow/support/tensors.h"

namespace slimpack {
namespace {

constexpr double kAllowed = 0.05;

Decoder shape_of(std::int64_t heads, std::int64_t key_heads, std::int64_t inner) {
  Decoder shape;
  shape.kinds = {{.hidden_size = 128,
                  .num_heads = heads,
                  .num_kv_heads = key_heads,
                  .head_dim = 32,
                  .value_dim = 32,
                  .dense_width = inner}};
  shape.set_layers(3);
  shape.vocab_size = 320;
  shape.max_positions = Tokens(20000);
  return shape;
}

NamedTensors random_model(const Decoder& model) {
  const LayerShape& s = model.kinds[0];
  Rng rng(1);
  NamedTensors tensors;
  const auto add = [&](const std::string& name, at::IntArrayRef sizes) {
    tensors[name + ".weight"] = testing::random_tensor(rng, sizes) * 0.1;
  };
  for (std::int64_t layer = 0; layer < model.num_layers(); ++layer) {
    const std::string at = fmt::format("model.layers.{}.", layer);
    add(at + "input_layernorm", {s.hidden_size});
    add(at + "post_attention_layernorm", {s.hidden_size});
    add(at + "self_attn.q_proj", {s.q_width(), s.hidden_size});
    add(at + "self_attn.k_proj", {s.k_width(), s.hidden_size});
    add(at + "self_attn.v_proj", {s.k_width(), s.hidden_size});
    add(at + "self_attn.o_proj", {s.hidden_size, s.q_width()});
    add(at + "mlp.gate_proj", {s.dense_width, s.hidden_size});
    add(at + "mlp.up_proj", {s.dense_width, s.hidden_size});
    add(at + "mlp.down_proj", {s.hidden_size, s.dense_width});
  }
  add("model.embed_tokens", {model.vocab_size, s.hidden_size});
  add("lm_head", {model.vocab_size, s.hidden_size});
  add("model.norm", {s.hidden_size});
  return tensors;
}

double error_of(Bytes predicted, Bytes measured) {
  return std::abs(static_cast<double>(predicted.count()) / static_cast<double>(measured.count()) -
                  1);
}

void expect_predicted(PromptQuestion question) {
  const NamedTensors tensors = random_model(question.shape);
  const MemoryScope scope(0);
  const Bytes before = live_bytes(0);
  LanguageModel model(question.shape, tensors, question.dtype, at::kCPU);
  const PromptMemory predicted = prompt_memory(question);
  EXPECT_LT(error_of(predicted.weights, live_bytes(0) - before), kAllowed);
  reset_peak(0);
  CachedSequence sequence(model);
  const std::vector<std::int64_t> prompt(static_cast<std::size_t>(question.prompt.count()), 7);
  static_cast<void>(sequence.prefill(prompt, (question.prompt + question.answer).count(),
                                     {.slice = question.slice.count()}));
  const Bytes peak = peak_bytes(0) - before;
  EXPECT_LT(error_of(predicted.total(), peak), kAllowed)
      << to_string(question.dtype) << ": predicted " << predicted.total().count() << " of "
      << peak.count();
  // The bytes that a prompt adds to the weights are predicted, too.
  EXPECT_LT(error_of(predicted.total() - predicted.weights, peak - predicted.weights), kAllowed);
}

TEST(PromptMemory, IsPredictedForLongPromptsOfManyHeads) {
  for (const Dtype dtype : {Dtype::kFp32, Dtype::kBf16})
    expect_predicted({.shape = shape_of(8, 2, 320),
                      .dtype = dtype,
                      .prompt = Tokens(9000),
                      .answer = Tokens(100),
                      .slice = Tokens(1024)});
}

TEST(PromptMemory, IsPredictedWhereTheMlpDecides) {
  for (const Dtype dtype : {Dtype::kFp32, Dtype::kBf16})
    expect_predicted({.shape = shape_of(4, 4, 1024),
                      .dtype = dtype,
                      .prompt = Tokens(2000),
                      .answer = Tokens(0),
                      .slice = Tokens(1500)});
}

}  // namespace
}  // namespace slimpack
