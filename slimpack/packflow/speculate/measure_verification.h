// Measures what verifications cost.
#pragma once

#include <cstdint>

#include "slimpack/packflow/language/language_model.h"
#include "slimpack/packflow/speculate/verification_costs.h"

namespace slimpack {

/// The medians of some passes of 1, 2, 4, … rows, up to `most_rows`, after a short text. Takes
/// about a third of a second; where passes take longer three of each size, and one of a size whose
/// pass takes a third of a second by itself.
[[nodiscard]] VerificationCosts measure_verification(LanguageModel& model, std::int64_t most_rows);

}  // namespace slimpack
