// EAGLE-3's drafting: the head goes on from the model's hidden states, then from its own.
#pragma once

#include <memory>

#include "slimpack/packflow/language/language_model.h"
#include "slimpack/packflow/speculate/draft.h"
#include "slimpack/packflow/speculate/eagle_head.h"

namespace slimpack {

/// A draft of the model's type. Each level of guesses takes one pass of the head over the level's
/// likeliest rows, `width` of the rule, as EAGLE-2 does; all guesses of a level are in the tree.
/// Does not own the model. REQUIRES: a head of the model (load_eagle_head); a CPU.
[[nodiscard]] std::unique_ptr<Draft> make_eagle_draft(EagleHead head, const LanguageModel& model);

}  // namespace slimpack
