// Benchmarks of whole steps train real documents on a small model; slices are held against a step
// of whole documents.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "slimpack/base/units.h"
#include "slimpack/cost/cost_model.h"
#include "slimpack/planner/planner.h"
#include "slimpack/spec/decoder.h"

namespace slimpack {

/// Rounds of the planner's search: steps of many seconds are worth a second of planning, which
/// overlaps the step before.
inline constexpr std::int32_t kStepEffort = 3;

struct StepOptions {
  Tokens context{16384};
  Tokens step_tokens{65536};
  int repetitions = 3;
  std::string json;
};

/// --context, --step-tokens, --repetitions, --quick and --json. Keeps a reference.
void add_step_options(CLI::App& app, StepOptions& options);

/// The Python standard library's source files as bytes. bench/torch_pipelining.py chooses the same
/// ones, so that both run the same work: whole files, shuffled by Python's random.Random(seed),
/// each truncated at `context` bytes, until `step_tokens` are reached or passed. Asks the python3
/// on PATH for the files. Throws InvalidInput when there is no python3 or no such file.
[[nodiscard]] std::vector<std::vector<std::int64_t>> standard_library_documents(Tokens context,
                                                                                Tokens step_tokens,
                                                                                std::int64_t seed);

/// Small enough for a processor, bytes as tokens.
[[nodiscard]] Decoder step_model(Tokens context, std::int64_t layers);

/// One rank; every document in a MicroPack of its own, forward and at once backward: no pipeline,
/// no slices.
[[nodiscard]] RunnablePlan whole_documents(const SequenceLengths& lengths, const Costs& cost);

}  // namespace slimpack
