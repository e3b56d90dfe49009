#include "apps/slimpack/step_lengths.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "slimpack/base/error.h"
#include "slimpack/base/file.h"
#include "slimpack/base/human.h"
#include "slimpack/data/indexed_dataset.h"
#include "slimpack/data/lengths.h"
#include "slimpack/data/sampler.h"

namespace slimpack {

StepLengths listed_lengths(const std::string& file, Tokens context) {
  SequenceLengths lengths = read_lengths(file);
  std::int64_t cut = 0;
  for (Tokens& length : lengths) {
    if (length > context) ++cut;
    length = std::min(length, context);
  }
  return {std::move(lengths), fmt::format("{}, {} cut at {} tokens", stream_name(file),
                                          grouped(cut), grouped(context.count()))};
}

StepLengths step_lengths(const StepSource& source, const RunConfig& config,
                         std::string_view config_file) {
  if (!source.lengths.empty() && !source.data.empty())
    invalid_input("--lengths {} and --data {} are two sources of one step; give one of them",
                  source.lengths, source.data);
  if (!source.lengths.empty()) return listed_lengths(source.lengths, config.data.context);
  const std::string prefix = source.data.empty() ? config.data.prefix.string() : source.data;
  if (prefix.empty())
    invalid_input(
        "{}: no sequences to plan; give --lengths FILE or --data PREFIX, or set "
        "data.prefix",
        config_file);
  Sampler sampler(IndexedDataset::open(prefix).lengths(),
                  {config.data.context, config.data.step_tokens}, {config.data.seed, 0, 0});
  StepLengths step;
  for (const SampledDocument& document : sampler.next_step())
    step.lengths.push_back(document.length);
  step.source = fmt::format("{}, first step of seed {}", prefix, config.data.seed);
  return step;
}

}  // namespace slimpack
