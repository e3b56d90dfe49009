// Describes the slices of a step's MicroPacks in words.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "slimpack/plan/plan.h"
#include "slimpack/trace/timeline.h"

namespace slimpack {

/// The texts of each replica's packs. `text` names tokens [begin, end) of a sequence.
[[nodiscard]] std::vector<PackTexts> pack_texts(
    const StepPlan& plan,
    const std::function<std::string(SequenceId sequence, Tokens begin, Tokens end)>& text);

}  // namespace slimpack
