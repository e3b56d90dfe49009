// Checks before the first step, not when a document is drawn, that the model knows every token of
// the training data.
#pragma once

#include "slimpack/spec/run_config.h"
#include "slimpack/training/document_stream.h"
#include "slimpack/training/job_agreement.h"
#include "slimpack/training/training_listener.h"

namespace slimpack {

/// Reads every token, and every byte of the mask where there is one, and tells `listener` its
/// progress. Skips the reading if a file notes the dataset's token range: PREFIX.checked.json (of a
/// mask PREFIX.mask.checked.json), or a file in output.dir if the dataset's folder cannot be
/// written. In a job of several processes only the first reads, and all return or throw the same.
/// Throws InvalidInput naming the place of a token that the model does not know, or of a byte that
/// is none of a mask's, and Interrupted if the first process was asked to stop.
void check_tokens(const RunConfig& config, const DocumentReader& reader,
                  const JobAgreement& agreement, TrainingListener& listener);

}  // namespace slimpack
