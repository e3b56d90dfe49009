// Whether the model knows every token of the training data: found before the first step, not when a
// document is drawn.
#pragma once

#include "slimpack/spec/run_config.h"
#include "slimpack/training/document_reader.h"
#include "slimpack/training/job_agreement.h"
#include "slimpack/training/training_listener.h"

namespace slimpack {

/// Reads every token, and tells `listener` how far it is, unless it is noted that this dataset was
/// read before: in PREFIX.checked.json, or in output.dir where the dataset's folder cannot be
/// written. In a job of several processes the first reads, and all end alike. Throws InvalidInput
/// naming the place of a token that the model does not know, Interrupted when the first process was
/// asked to stop.
void check_tokens(const RunConfig& config, const DocumentReader& reader,
                  const JobAgreement& agreement, TrainingListener& listener);

}  // namespace slimpack
