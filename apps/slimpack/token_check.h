// Whether the model knows every token of the training data: found before the first step, not when a
// document is drawn.
#pragma once

#include <functional>

#include "apps/slimpack/document_reader.h"
#include "slimpack/packflow/ranks/world.h"
#include "slimpack/spec/run_config.h"

namespace slimpack {

/// Reads every token, with progress on stderr, unless it is noted that this dataset was read
/// before: in PREFIX.checked.json, or in output.dir where the dataset's folder cannot be written.
/// In a job of several processes (`process`, else null) the first reads, and all end alike. Throws
/// InvalidInput naming the place of a token that the model does not know, Interrupted when
/// `should_stop` says so.
void check_tokens(const RunConfig& config, const DocumentReader& reader, JobProcess* process,
                  const std::function<bool()>& should_stop);

}  // namespace slimpack
