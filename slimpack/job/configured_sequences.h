// How a run trains on documents that are longer than its context.
#pragma once

#include <span>
#include <string>

#include "slimpack/base/units.h"
#include "slimpack/data/sequences.h"
#include "slimpack/spec/run_config.h"

namespace slimpack {

[[nodiscard]] SequenceRule configured_sequences(const DataConfig& data);

/// One line for people: how many of these documents are longer than the context, and whether their
/// tokens are split or dropped.
[[nodiscard]] std::string long_documents_text(std::span<const Tokens> documents,
                                              const SequenceRule& rule);

}  // namespace slimpack
