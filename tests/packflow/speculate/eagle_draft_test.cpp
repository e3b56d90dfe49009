// EAGLE-3's drafting against the head by definition, row by row in fp64.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "slimpack/packflow/speculate/draft_tree.h"
#include "slimpack/packflow/speculate/eagle_draft.h"
#include "tests/packflow/support/pretended_device.h"
#include "tests/packflow/support/tensors.h"
#include "tests/support/expect_error.h"

namespace slimpack {
namespace {

using slimpack::testing::random_tensor;
using Text = std::vector<std::int64_t>;

constexpr std::int64_t kVocabulary = 50, kGuesses = 30, kHidden = 16, kInner = 20;
constexpr std::int64_t kHeads = 4, kKeyHeads = 2, kDim = 6;
constexpr double kEps = 1e-6, kTheta = 10000;

Decoder shape_of(std::int64_t layers, std::int64_t vocabulary) {
  Decoder shape;
  shape.kinds = {{.hidden_size = kHidden,
                  .num_heads = kHeads,
                  .num_kv_heads = kKeyHeads,
                  .head_dim = kDim,
                  .value_dim = kDim,
                  .dense_width = kInner}};
  shape.set_layers(layers);
  shape.vocab_size = vocabulary;
  shape.max_positions = Tokens(400);
  shape.rms_norm_eps = kEps;
  shape.rope_theta = kTheta;
  return shape;
}

/// A layer whose q, k and v take `inputs` numbers.
void add_layer(NamedTensors& tensors, Rng& rng, const std::string& at, std::int64_t inputs) {
  const auto add = [&](const std::string& name, at::IntArrayRef sizes) {
    tensors[at + name] = random_tensor(rng, sizes) * 0.4;
  };
  add("input_layernorm.weight", {kHidden});
  add("post_attention_layernorm.weight", {kHidden});
  add("self_attn.q_proj.weight", {kHeads * kDim, inputs});
  add("self_attn.k_proj.weight", {kKeyHeads * kDim, inputs});
  add("self_attn.v_proj.weight", {kKeyHeads * kDim, inputs});
  add("self_attn.o_proj.weight", {kHidden, kHeads * kDim});
  add("mlp.gate_proj.weight", {kInner, kHidden});
  add("mlp.up_proj.weight", {kInner, kHidden});
  add("mlp.down_proj.weight", {kHidden, kInner});
}

NamedTensors model_tensors(Rng& rng) {
  NamedTensors tensors;
  add_layer(tensors, rng, "model.layers.0.", kHidden);
  tensors["model.embed_tokens.weight"] = random_tensor(rng, {kVocabulary, kHidden});
  tensors["model.norm.weight"] = random_tensor(rng, {kHidden});
  tensors["lm_head.weight"] = random_tensor(rng, {kVocabulary, kHidden});
  return tensors;
}

NamedTensors head_tensors(Rng& rng) {
  NamedTensors tensors;
  add_layer(tensors, rng, "midlayer.", 2 * kHidden);
  tensors["fc.weight"] = random_tensor(rng, {kHidden, 3 * kHidden}) * 0.3;
  tensors["midlayer.hidden_norm.weight"] = random_tensor(rng, {kHidden});
  tensors["norm.weight"] = random_tensor(rng, {kHidden});
  tensors["lm_head.weight"] = random_tensor(rng, {kGuesses, kHidden});
  return tensors;
}

EagleHead head_of(const NamedTensors& t) {
  EagleHead head;
  head.shape = shape_of(1, kGuesses);
  head.target_hidden_size = kHidden;
  head.feature_layers = {0, 0, 0};
  head.combine = DecoderMatrix({t.at("fc.weight")}, Dtype::kFp64, at::kCPU);
  head.hidden_norm_H = t.at("midlayer.hidden_norm.weight");
  head.layer = layer_weights(t, "midlayer.", Dtype::kFp64, at::kCPU);
  head.final_norm_H = t.at("norm.weight");
  head.head = DecoderMatrix({t.at("lm_head.weight")}, Dtype::kFp64, at::kCPU);
  for (std::int64_t i = 0; i < kGuesses; ++i) head.target_tokens.push_back(49 - i);
  return head;
}

/// From a path of tokens after row 0 to its log probability.
using Paths = std::map<Text, double>;

/// The head by definition. One row at a time; the keys before it are in a list.
class HeadByDefinition {
 public:
  HeadByDefinition(NamedTensors head, at::Tensor embedding)
      : t_(std::move(head)), embedding_(std::move(embedding)) {}

  /// The tree after `text`, whose last token has no features yet. features [T − 1, 3H].
  Paths tree(const Text& text, const at::Tensor& features, std::int64_t depth, std::int64_t width) {
    State state;
    for (std::int64_t i = 0; i < features.size(0); ++i)
      state = after(state, at::mv(t_.at("fc.weight"), features[i]),
                    text[static_cast<std::size_t>(i) + 1]);
    std::vector<Node> level{{{}, 0, state}};
    Paths paths{{{}, 0}};
    for (std::int64_t d = 0; d < depth; ++d) {
      std::vector<Node> next;
      for (const Node& node : level)
        for (const auto& [token, p] : guesses(node.state, width)) {
          Node child{node.path, node.log_probability + p, node.state};
          child.path.push_back(token);
          paths[child.path] = child.log_probability;
          next.push_back(child);
        }
      std::ranges::sort(next, std::greater<>(), &Node::log_probability);
      next.resize(std::min(next.size(), static_cast<std::size_t>(width)));
      for (Node& node : next) node.state = after(node.state, node.state.g, node.path.back());
      level = next;
    }
    return paths;
  }

 private:
  struct State {
    at::Tensor g;                  ///< of the last row
    std::vector<at::Tensor> k, v;  ///< [key heads, D] each
  };
  struct Node {
    Text path;
    double log_probability;
    State state;
  };

  [[nodiscard]] at::Tensor norm(const at::Tensor& x, const std::string& name) const {
    return x / (x.square().mean() + kEps).sqrt() * t_.at(name);
  }
  [[nodiscard]] at::Tensor times(const std::string& name, const at::Tensor& x) const {
    return at::mv(t_.at("midlayer." + name + ".weight"), x);
  }
  /// Halves of each head are turned by position · θ^(−2i/D).
  static at::Tensor turned(const at::Tensor& x, double position) {
    at::Tensor out = x.clone();
    for (std::int64_t n = 0; n < x.size(0); ++n)
      for (std::int64_t i = 0; i < kDim / 2; ++i) {
        const double angle = position * std::pow(kTheta, -2.0 * static_cast<double>(i) / kDim);
        const at::Tensor a = x[n][i], b = x[n][i + kDim / 2];
        out[n][i] = a * std::cos(angle) - b * std::sin(angle);
        out[n][i + kDim / 2] = b * std::cos(angle) + a * std::sin(angle);
      }
    return out;
  }

  State after(State state, const at::Tensor& g, std::int64_t token) const {
    const auto position = static_cast<double>(state.k.size());
    const at::Tensor pair = at::cat({norm(embedding_[token], "midlayer.input_layernorm.weight"),
                                     norm(g, "midlayer.hidden_norm.weight")});
    const at::Tensor q = turned(times("self_attn.q_proj", pair).view({kHeads, kDim}), position);
    state.k.push_back(turned(times("self_attn.k_proj", pair).view({kKeyHeads, kDim}), position));
    state.v.push_back(times("self_attn.v_proj", pair).view({kKeyHeads, kDim}));
    const at::Tensor k = at::stack(state.k), v = at::stack(state.v);
    std::vector<at::Tensor> heads;
    for (std::int64_t n = 0; n < kHeads; ++n) {
      const std::int64_t of = n / (kHeads / kKeyHeads);
      const at::Tensor p = (at::mv(k.select(1, of), q[n]) / std::sqrt(double{kDim})).softmax(0);
      heads.push_back(at::mv(v.select(1, of).t(), p));
    }
    at::Tensor x = g + times("self_attn.o_proj", at::cat(heads));
    const at::Tensor n = norm(x, "midlayer.post_attention_layernorm.weight");
    x = x + times("mlp.down_proj", at::silu(times("mlp.gate_proj", n)) * times("mlp.up_proj", n));
    state.g = x;
    return state;
  }

  [[nodiscard]] std::vector<std::pair<std::int64_t, double>> guesses(const State& state,
                                                                     std::int64_t width) const {
    const at::Tensor p =
        at::mv(t_.at("lm_head.weight"), norm(state.g, "norm.weight")).log_softmax(0);
    std::vector<std::pair<std::int64_t, double>> all;
    for (std::int64_t i = 0; i < kGuesses; ++i) all.emplace_back(49 - i, p[i].item<double>());
    std::ranges::sort(all, std::greater<>(), [](const auto& guess) { return guess.second; });
    all.resize(static_cast<std::size_t>(std::min(width, kGuesses)));
    return all;
  }

  NamedTensors t_;
  at::Tensor embedding_;
};

void expect_equal(const DraftTree& tree, const Paths& expected) {
  ASSERT_EQ(tree.size(), expected.size());
  std::vector<Text> paths(tree.size());
  for (std::size_t row = 1; row < tree.size(); ++row) {
    paths[row] = paths[static_cast<std::size_t>(tree.parents[row])];
    paths[row].push_back(tree.tokens[row]);
    ASSERT_TRUE(expected.contains(paths[row]));
    EXPECT_NEAR(tree.log_probability[row], expected.at(paths[row]), 1e-9);
  }
}

TEST(EagleDraft, GuessesWhatTheHeadByDefinitionGuesses) {
  Rng rng(4);
  const NamedTensors of_model = model_tensors(rng), of_head = head_tensors(rng);
  const LanguageModel model(shape_of(1, kVocabulary), of_model, Dtype::kFp64, at::kCPU);
  HeadByDefinition naive(of_head, of_model.at("model.embed_tokens.weight"));
  const auto draft = make_eagle_draft(head_of(of_head), model);
  Text text;
  for (int i = 0; i < 120; ++i) text.push_back(static_cast<std::int64_t>(rng.below(kVocabulary)));
  const at::Tensor features = random_tensor(rng, {120, 3 * kHidden});
  std::int64_t known = 0;
  const auto learn = [&](std::int64_t rows) {
    draft->learn(
        std::span(text).subspan(static_cast<std::size_t>(known), static_cast<std::size_t>(rows)),
        features.narrow(0, known, rows));
    known += rows;
  };
  const auto propose = [&](std::int64_t depth, std::int64_t width) {
    FixedTree rule({.depth = depth, .width = width});
    const Text before(text.begin(), text.begin() + known + 1);
    DraftTree tree(text[static_cast<std::size_t>(known)]);
    draft->guess(tree, rule);
    expect_equal(tree, naive.tree(before, features.narrow(0, 0, known), depth, width));
  };
  learn(70);  // more than may wait
  propose(4, 3);
  learn(1);
  propose(3, 4);
  for (int i = 0; i < 5; ++i) learn(2);  // passes in which nothing was guessed
  draft->go_back(78);                    // to a row that waits
  known = 78;
  learn(4);
  propose(3, 2);
  draft->go_back(20);  // to one that ran
  known = 20;
  learn(30);
  propose(2, 5);
  draft->go_back(0);
  known = 0;
  learn(1);
  propose(2, 3);
}

/// The path that leads to a row.
Text path_to(const DraftTree& tree, std::size_t row) {
  Text path;
  for (; row > 0; row = static_cast<std::size_t>(tree.parents[row]))
    path.insert(path.begin(), tree.tokens[row]);
  return path;
}

TEST(EagleDraft, AGuessThatAnotherDraftMadeIsOneRowAndTheHeadGoesOnFromIt) {
  Rng rng(6);
  const NamedTensors of_model = model_tensors(rng), of_head = head_tensors(rng);
  const LanguageModel model(shape_of(1, kVocabulary), of_model, Dtype::kFp64, at::kCPU);
  HeadByDefinition naive(of_head, of_model.at("model.embed_tokens.weight"));
  const auto draft = make_eagle_draft(head_of(of_head), model);
  const Text text{3, 1, 4, 1, 5};
  const at::Tensor features = random_tensor(rng, {4, 3 * kHidden});
  draft->learn(std::span(text).first(4), features);
  const Paths expected = naive.tree(text, features, 2, kGuesses);  // all guesses of two levels
  FixedTree one({.depth = 1, .width = 3});
  DraftTree first(5);
  draft->guess(first, one);
  draft->go_back(0);
  draft->learn(std::span(text).first(4), features);
  DraftTree tree(5);
  const std::int32_t a = tree.add(0, first.tokens[1], std::log(0.9), Guesser::kNgrams);
  tree.add(a, 0, std::log(0.9), Guesser::kNgrams);  // a token that the head cannot guess
  FixedTree two({.depth = 2, .width = 3});
  draft->guess(tree, two);
  EXPECT_EQ(tree.guessers[1], Guesser::kBoth);
  EXPECT_NEAR(tree.log_probability[1], first.log_probability[1], 1e-12);
  std::set<Text> paths;
  for (std::size_t row = 1; row < tree.size(); ++row) {
    EXPECT_TRUE(paths.insert(path_to(tree, row)).second);
    if (tree.guessers[row] == Guesser::kNgrams) continue;
    EXPECT_NEAR(tree.log_probability[row], expected.at(path_to(tree, row)), 1e-9);
  }
  EXPECT_GE(tree.size(), 1U + 3 + 3 * 3);
}

TEST(EagleDraft, AModelThatIsNotOnTheCpuIsRefused) {
  Rng rng(1);
  const LanguageModel model(shape_of(1, kVocabulary), model_tensors(rng), Dtype::kFp64,
                            testing::kPretended);
  expect_invalid_input([&] { static_cast<void>(load_eagle_head("head", model)); },
                       {"'head'", "on a CPU alone", "draft \"ngram\""});
}

}  // namespace
}  // namespace slimpack
