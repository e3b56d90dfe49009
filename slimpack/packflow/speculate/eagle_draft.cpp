#include "slimpack/packflow/speculate/eagle_draft.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/log_softmax.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/topk.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <utility>

#include "slimpack/base/error.h"
#include "slimpack/packflow/decode/panel_product.h"
#include "slimpack/packflow/device/tensor.h"
#include "slimpack/packflow/language/rope_table.h"
#include "slimpack/packflow/language/row_decoder.h"

namespace slimpack {
namespace {

/// Guesses after some rows, likeliest first: [rows, width] each.
struct Guesses {
  at::Tensor log_probability;  ///< fp64
  at::Tensor guess;            ///< indices of the head's vocabulary
  std::vector<double> entropy;
};

double entropy_of(const double* log_probability, std::int64_t count) {
  double sum = 0, weighted = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    const double p = std::exp(log_probability[i]);
    sum += p;
    weighted += p * log_probability[i];
  }
  return std::log(sum) - weighted / sum;  // −Σ (p/s) ln(p/s)
}

template <class Input>
class EagleDraft final : public Draft {
  using T = Sum<Input>;

 public:
  EagleDraft(EagleHead head, const LanguageModel& model)
      : head_(std::move(head)),
        model_(&model),
        cache_(head_.shape, model.dtype(), model.device()),
        rope_(head_.shape, model.dtype(), model.device()),
        decoder_(head_.shape.kinds.front(), head_.shape.rms_norm_eps) {}

  [[nodiscard]] std::vector<std::int64_t> feature_layers() const override {
    return head_.feature_layers;
  }

  void go_back(std::int64_t size) override {
    // Rows before `size` may wait still: the rule asks for no guess in every pass.
    if (size > cache_.size() && !waiting_tokens_.empty()) (void)run_waiting();
    cache_.truncate(size);
    waiting_features_.clear();
    waiting_tokens_.clear();
  }

  void learn(std::span<const std::int64_t> tokens, const at::Tensor& features) override;
  void guess(DraftTree& tree, TreeRule& rule) override;

 private:
  at::Tensor combined(const at::Tensor& features);
  /// Runs rows: the next g, after which the cache holds them as own keys from size() on.
  at::Tensor run(std::span<const std::int64_t> next_tokens, const at::Tensor& g_TH,
                 std::span<const std::int64_t> positions, const OwnKeys& own);
  void embed(std::int64_t token, T* to) const;
  at::Tensor run_waiting();
  at::Tensor next_g(const at::Tensor& out_TH) const;
  Guesses guesses_after(const at::Tensor& g_TH, std::int64_t width);
  /// `others`: how many of the tree's rows another draft made.
  void add_level(DraftTree& tree, const Guesses& guesses, std::span<const std::int32_t> rows,
                 std::size_t others) const;

  EagleHead head_;
  const LanguageModel* model_;
  KeyValueCache cache_;
  RopeTable rope_;
  RowDecoder<Input> decoder_;
  std::vector<at::Tensor> waiting_features_;  ///< of rows that have not run, in order
  std::vector<std::int64_t> waiting_tokens_;  ///< those after the rows, as far as they are known
  RowBuffer<Input> features_TE_;
  RowBuffer<Input> pair_T2H_;
};

/// fc of features, which are normed first where the head norms them.
template <class Input>
at::Tensor EagleDraft<Input>::combined(const at::Tensor& features) {
  const std::int64_t rows = features.size(0), width = head_.target_hidden_size;
  features_TE_.resize(rows, features.size(1));
  const RowsView<T> from = view_of<T>(features);
  const RowsView<Input> to = features_TE_.view();
  for (std::int64_t r = 0; r < rows; ++r) std::copy_n(from.row(r), features.size(1), to.row(r));
  for (std::size_t i = 0; i < head_.feature_norms_H.size(); ++i) {
    const std::int64_t at = static_cast<std::int64_t>(i) * width;
    norm_rows<Input>({from.data + at, rows, from.stride}, width,
                     head_.feature_norms_H[i].const_data_ptr<T>(), head_.shape.rms_norm_eps,
                     {to.data + at, rows, to.stride});
  }
  at::Tensor g_TH = at::empty({rows, head_.shape.hidden_size()}, features.options());
  multiply<Input>(head_.combine.panels(), to, view_of<T>(g_TH));
  return g_TH;
}

template <class Input>
void EagleDraft<Input>::embed(std::int64_t token, T* to) const {
  const DecoderMatrix& own = head_.embedding;
  const PanelMatrix& matrix = own.defined() ? own.panels() : model_->weights().embedding.panels();
  matrix.copy_row<Input>(token, to);
}

template <class Input>
at::Tensor EagleDraft<Input>::run(std::span<const std::int64_t> next_tokens, const at::Tensor& g_TH,
                                  std::span<const std::int64_t> positions, const OwnKeys& own) {
  const std::int64_t rows = g_TH.size(0), width = head_.shape.hidden_size();
  const double eps = head_.shape.rms_norm_eps;
  const at::Tensor e_TH = at::empty_like(g_TH), x_TH = g_TH.clone();
  const RowsView<T> e = view_of<T>(e_TH), x = view_of<T>(x_TH);
  for (std::int64_t r = 0; r < rows; ++r) embed(next_tokens[static_cast<std::size_t>(r)], e.row(r));
  pair_T2H_.resize(rows, 2 * width);
  const RowsView<Input> pair = pair_T2H_.view();
  const T* const hidden_norm = head_.hidden_norm_H.const_data_ptr<T>();
  norm_rows<Input>(e, width, head_.layer.attention_norm_H.const_data_ptr<T>(), eps, pair);
  norm_rows<Input>(x, width, hidden_norm, eps, {pair.data + width, rows, pair.stride});
  if (head_.norm_before_residual) norm_rows<T>(x, width, hidden_norm, eps, x);
  cache_.reserve(cache_.size() + own.keys());
  rope_.reserve(*std::ranges::max_element(positions) + 1);
  const SequenceRows sequence{cache_, own};
  const RowPlaces<T> places{std::span(&sequence, 1), positions, rope_.cos_LD().const_data_ptr<T>(),
                            rope_.sin_LD().const_data_ptr<T>()};
  decoder_.add_attention(head_.layer, pair, 0, places, x);
  decoder_.add_mlp(head_.layer, x);
  return x_TH;
}

/// Runs the rows that wait and whose next tokens are known. REQUIRES: there is one.
template <class Input>
at::Tensor EagleDraft<Input>::run_waiting() {
  const auto rows = static_cast<std::int64_t>(waiting_tokens_.size());
  const at::Tensor features = joined_rows(waiting_features_);
  std::vector<std::int64_t> positions(waiting_tokens_.size());
  std::iota(positions.begin(), positions.end(), cache_.size());
  at::Tensor out_TH =
      run(waiting_tokens_, combined(features.narrow(0, 0, rows)), positions, OwnKeys(rows));
  cache_.append(rows);
  waiting_features_.clear();
  if (rows < features.size(0))
    waiting_features_.push_back(features.narrow(0, rows, features.size(0) - rows).clone());
  waiting_tokens_.clear();
  return out_TH;
}

template <class Input>
void EagleDraft<Input>::learn(std::span<const std::int64_t> tokens, const at::Tensor& features) {
  // A row waits for the token after it, the last one until guess().
  const auto after = waiting_features_.empty() ? tokens.subspan(1) : tokens;
  waiting_features_.push_back(features);
  waiting_tokens_.insert(waiting_tokens_.end(), after.begin(), after.end());
  // The few rows of a verification run with guess()'s. Rows of a prompt would take memory until
  // then.
  constexpr std::size_t kFewRows = 64;
  if (waiting_tokens_.size() > kFewRows) (void)run_waiting();
}

/// The g of the rows that follow these: the head's output, normed where the head norms it.
template <class Input>
at::Tensor EagleDraft<Input>::next_g(const at::Tensor& out_TH) const {
  if (!head_.norm_output) return out_TH;
  at::Tensor normed_TH = at::empty_like(out_TH);
  norm_rows<T>(view_of<T>(out_TH), out_TH.size(1), head_.final_norm_H.const_data_ptr<T>(),
               head_.shape.rms_norm_eps, view_of<T>(normed_TH));
  return normed_TH;
}

template <class Input>
Guesses EagleDraft<Input>::guesses_after(const at::Tensor& g_TH, std::int64_t width) {
  const at::Tensor logits_TV = at::empty({g_TH.size(0), head_.shape.vocab_size}, g_TH.options());
  decoder_.head(head_.final_norm_H, head_.head.panels(), view_of<T>(g_TH), view_of<T>(logits_TV));
  const auto [best, index] =
      at::topk(at::log_softmax(logits_TV, -1), std::min(width, head_.shape.vocab_size));
  Guesses guesses{best.to(at::kDouble), index, {}};
  const std::int64_t count = index.size(1);
  for (std::int64_t r = 0; r < g_TH.size(0); ++r)
    guesses.entropy.push_back(
        entropy_of(guesses.log_probability.const_data_ptr<double>() + r * count, count));
  return guesses;
}

/// The child of a row that guesses `token`, among the first `others` rows.
std::optional<std::int32_t> others_guess(const DraftTree& tree, std::size_t others,
                                         std::int32_t parent, std::int64_t token) {
  for (std::size_t row = 1; row < others; ++row)
    if (tree.parents[row] == parent && tree.tokens[row] == token)
      return static_cast<std::int32_t>(row);
  return std::nullopt;
}

template <class Input>
void EagleDraft<Input>::add_level(DraftTree& tree, const Guesses& guesses,
                                  std::span<const std::int32_t> rows, std::size_t others) const {
  const std::int64_t count = guesses.guess.size(1);
  const auto* const guess = guesses.guess.template const_data_ptr<std::int64_t>();
  const auto* const p = guesses.log_probability.template const_data_ptr<double>();
  for (std::size_t r = 0; r < rows.size(); ++r) {
    tree.entropy[static_cast<std::size_t>(rows[r])] = guesses.entropy[r];
    for (std::int64_t i = 0; i < count; ++i) {
      const auto at = static_cast<std::size_t>(static_cast<std::int64_t>(r) * count + i);
      const std::int64_t token = head_.target_tokens[static_cast<std::size_t>(guess[at])];
      if (const auto row = others_guess(tree, others, rows[r], token))
        tree.join(*row, p[at], static_cast<std::int32_t>(i));
      else
        tree.add(rows[r], token, p[at], Guesser::kHead, static_cast<std::int32_t>(i));
    }
  }
}

/// The likeliest `width` of some rows, in the order of the tree.
std::vector<std::int32_t> likeliest_rows(const DraftTree& tree, std::vector<std::int32_t> rows,
                                         std::int64_t width) {
  std::ranges::stable_sort(rows, [&](std::int32_t a, std::int32_t b) {
    return tree.log_probability[static_cast<std::size_t>(a)] >
           tree.log_probability[static_cast<std::size_t>(b)];
  });
  rows.resize(std::min(rows.size(), static_cast<std::size_t>(width)));
  std::ranges::sort(rows);
  return rows;
}

/// Rows that ran for one tree, and what the rows after them need.
class TreeRows {
 public:
  /// `g_1H`: of the last row of the sequence.
  explicit TreeRows(at::Tensor g_1H) : g_TH_(std::move(g_1H)) {}

  /// The rows of a level that can run: the row before each ran.
  [[nodiscard]] std::vector<std::int32_t> level(const DraftTree& tree, std::int32_t depth) const {
    std::vector<std::int32_t> rows;
    for (std::size_t row = 1; row < tree.size(); ++row) {
      const auto parent = static_cast<std::size_t>(tree.parents[row]);
      if (tree.depths[row] == depth &&
          (depth == 1 || (parent < ran_as_.size() && ran_as_[parent] >= 0)))
        rows.push_back(static_cast<std::int32_t>(row));
    }
    return rows;
  }
  /// Appends rows of the tree that run next.
  void add(const DraftTree& tree, std::span<const std::int32_t> rows) {
    ran_as_.resize(tree.size(), -1);
    tokens_.clear();
    sources_.clear();
    for (const std::int32_t row : rows) {
      const auto at = static_cast<std::size_t>(row);
      const std::int32_t parent = ran_as_[static_cast<std::size_t>(tree.parents[at])];
      ran_as_[at] = static_cast<std::int32_t>(parents_.size());
      parents_.push_back(parent);
      tokens_.push_back(tree.tokens[at]);
      sources_.push_back(parent + 1);
    }
  }
  /// The tokens of the rows that were added last. g_TH() and own() are of the same rows.
  [[nodiscard]] const std::vector<std::int64_t>& tokens() const { return tokens_; }
  [[nodiscard]] at::Tensor g_TH() const { return g_TH_.index_select(0, at::tensor(sources_)); }
  [[nodiscard]] OwnKeys own() const {
    return {parents_, static_cast<std::int64_t>(tokens_.size())};
  }
  void ran(const at::Tensor& next_g_TH) { g_TH_ = joined_rows({g_TH_, next_g_TH}); }

 private:
  at::Tensor g_TH_;                    ///< that of the sequence, then of the rows that ran
  std::vector<std::int32_t> parents_;  ///< of the rows that ran, among them; −1 = the sequence's
  std::vector<std::int32_t> ran_as_;   ///< by row of the tree; −1 = it did not run
  std::vector<std::int64_t> tokens_, sources_;
};

template <class Input>
void EagleDraft<Input>::guess(DraftTree& tree, TreeRule& rule) {
  if (!rule.deeper(tree, 0) || waiting_features_.empty()) return;
  const std::size_t others = tree.size();
  waiting_tokens_.push_back(tree.tokens[0]);
  const at::Tensor out_TH = run_waiting();
  const at::Tensor last_1H = out_TH.narrow(0, out_TH.size(0) - 1, 1);
  TreeRows rows(next_g(last_1H));
  const std::int32_t root = 0;
  add_level(tree, guesses_after(last_1H, rule.width()), {&root, 1}, others);
  for (std::int32_t depth = 1; rule.deeper(tree, depth); ++depth) {
    const auto level = likeliest_rows(tree, rows.level(tree, depth), rule.parents());
    rows.add(tree, level);
    const std::vector<std::int64_t> positions(level.size(), cache_.size() + depth - 1);
    const at::Tensor level_TH = run(rows.tokens(), rows.g_TH(), positions, rows.own());
    add_level(tree, guesses_after(level_TH, rule.width()), level, others);
    rows.ran(next_g(level_TH));
  }
}

}  // namespace

std::unique_ptr<Draft> make_eagle_draft(EagleHead head, const LanguageModel& model) {
  switch (model.dtype()) {
    case Dtype::kFp64:
      return std::make_unique<EagleDraft<double>>(std::move(head), model);
    case Dtype::kFp32:
      return std::make_unique<EagleDraft<float>>(std::move(head), model);
    case Dtype::kBf16:
      break;
  }
  return std::make_unique<EagleDraft<c10::BFloat16>>(std::move(head), model);
}

}  // namespace slimpack
