// Speculative decoding: a draft guesses a tree of tokens, the model verifies it in one pass, and
// what is right stays. The answer is that of plain decoding: the same tokens where the likeliest
// one is taken, the same distribution where tokens are drawn.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "slimpack/base/units.h"
#include "slimpack/packflow/language/cached_sequence.h"
#include "slimpack/packflow/language/language_model.h"
#include "slimpack/packflow/language/sampler.h"
#include "slimpack/packflow/speculate/draft.h"
#include "slimpack/packflow/speculate/draft_tree.h"

namespace slimpack {

/// Figures of a speculation: passes, rows, right guesses and times.
struct SpeculationFigures {
  std::int64_t passes = 0;  ///< verifications
  std::int64_t rows = 0;    ///< verified
  /// By depth, from 1 on: trees that had a guess after the right tokens before it, and how many of
  /// these had the right one among them.
  std::vector<std::int64_t> guessed;
  std::vector<std::int64_t> accepted;
  Nanos drafting{0};
  Nanos verifying{0};
};

/// Goes on from a sequence. Does not own the model.
class Speculator {
 public:
  Speculator(LanguageModel& model, std::unique_ptr<Draft> draft, std::unique_ptr<TreeRule> rule)
      : model_(&model), draft_(std::move(draft)), rule_(std::move(rule)) {}

  /// Settings of a prefill that tells the draft.
  [[nodiscard]] PrefillSettings told(PrefillSettings settings, CachedSequence& sequence);

  /// The tokens that follow `token`, which follows the sequence: one or more. The sequence gets
  /// `token` and all of them but the last. Guesses nothing where the sequence comes near the
  /// model's last position.
  [[nodiscard]] std::vector<std::int64_t> step(CachedSequence& sequence, std::int64_t token,
                                               TokenSampler& sampler);

  [[nodiscard]] const SpeculationFigures& figures() const { return figures_; }
  void forget_figures() { figures_ = {}; }

 private:
  [[nodiscard]] DraftTree guesses_after(std::int64_t token);
  void count(const DraftTree& tree, const std::vector<std::int32_t>& path);

  LanguageModel* model_;
  std::unique_ptr<Draft> draft_;
  std::unique_ptr<TreeRule> rule_;
  SpeculationFigures figures_;
};

/// The rows of a verified tree that are right, from row 0 on, and the token after the last of them.
struct Verdict {
  std::vector<std::int32_t> path;
  std::int64_t next = 0;
};

/// `logits_TV` of the tree's rows. Greedy: follows the likeliest token. Else each guess after a row
/// is accepted with its probability there, and left out of what the next one is drawn from if not
/// (SpecInfer, arXiv:2305.09781, for guesses that are not drawn).
[[nodiscard]] Verdict verify(const DraftTree& tree, const at::Tensor& logits_TV,
                             TokenSampler& sampler);

}  // namespace slimpack
