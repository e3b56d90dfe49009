// An epoch of training data, from a dataset's files to the tokens that a model sees.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <string>
#include <vector>

#include "slimpack/base/json_fields.h"
#include "slimpack/data/sampler.h"
#include "slimpack/packflow/kernels/vocabulary.h"
#include "slimpack/training/document_stream.h"
#include "tests/support/numbered_tokens.h"
#include "tests/support/temp_folder.h"

namespace slimpack {
namespace {

/// The sequences of the first `count` that are drawn, with a stop after every `resume_after` steps:
/// there another sampler goes on from the saved cursor.
std::vector<DocumentSequence> drawn(const Mixture& mixture, const SamplerOptions& options,
                                    std::uint64_t seed, std::size_t count, int resume_after) {
  std::vector<DocumentSequence> all;
  SamplerCursor cursor{.seed = seed};
  while (all.size() < count) {
    Sampler sampler(mixture, options, cursor);
    for (int step = 0; step < resume_after; ++step)
      for (const DocumentSequence& sequence : sampler.next_step()) all.push_back(sequence);
    const nlohmann::json saved = nlohmann::json::parse(to_json(sampler.cursor()).dump());
    cursor = sampler_cursor_from_json(JsonFields(saved, "cursor"));
  }
  all.resize(count);
  return all;
}

RC_GTEST_PROP(Epoch, TrainsEveryTokenOfEveryDocumentExactlyOnceAlsoOverAResume, ()) {
  auto lengths = *rc::gen::container<std::vector<std::int32_t>>(rc::gen::inRange(0, 120));
  lengths.push_back(*rc::gen::inRange(1, 120));
  const std::int32_t context = *rc::gen::inRange(1, 60);
  const TempFolder folder;
  const std::int64_t tokens = write_numbered_tokens(folder / "set", lengths);
  Decoder shape;
  shape.vocab_size = tokens;
  const DocumentReader reader({folder / "set"}, shape, "config.json", LossKind::kToken);

  // Counted by hand: how many sequences there are, and which tokens begin one.
  std::size_t sequences = 0;
  std::vector<int> as_target_expected;
  for (const std::int32_t length : lengths) {
    sequences += static_cast<std::size_t>((length + context - 1) / context);
    for (std::int32_t i = 0; i < length; ++i)
      as_target_expected.push_back(i % context == 0 ? 0 : 1);
  }
  std::vector<int> as_input(static_cast<std::size_t>(tokens)), as_target(as_input);
  const SamplerOptions options{{Tokens(context)}, Tokens(*rc::gen::inRange(1, 200))};
  const auto epoch =
      drawn(mixture_of_one(reader.lengths().front()), options, *rc::gen::arbitrary<std::uint64_t>(),
            sequences, *rc::gen::inRange(1, 5));
  const StepTokens read = reader.read(epoch);
  std::int64_t targets = 0;
  for (const auto& [tokens_L, targets_L, weights_L] : read.by_sequence) {
    RC_ASSERT(tokens_L.numel() <= context);
    RC_ASSERT(targets_L.numel() == tokens_L.numel());
    for (std::int64_t i = 0; i < tokens_L.numel(); ++i) {
      const std::int64_t token = tokens_L.const_data_ptr<std::int64_t>()[i];
      const std::int64_t target = targets_L.const_data_ptr<std::int64_t>()[i];
      ++as_input[static_cast<std::size_t>(token)];
      if (target == kNoTarget) continue;
      RC_ASSERT(target == token + 1);
      ++as_target[static_cast<std::size_t>(target)], ++targets;
    }
  }
  RC_ASSERT(as_input == std::vector<int>(as_input.size(), 1));
  RC_ASSERT(as_target == as_target_expected);
  RC_ASSERT(read.targets == targets);
}

RC_GTEST_PROP(Epoch, OfAMixtureTrainsEveryTokenOfASourceAsOftenAsItSaysAlsoOverAResume, ()) {
  const TempFolder folder;
  const std::int32_t context = *rc::gen::inRange(1, 60);
  Mixture mixture;
  std::vector<std::filesystem::path> prefixes;
  std::size_t sequences = 0;
  std::vector<std::vector<int>> expected;  // by source and token
  Decoder shape;
  for (int source = 0; source < 2; ++source) {
    auto lengths = *rc::gen::container<std::vector<std::int32_t>>(rc::gen::inRange(0, 90));
    lengths.push_back(*rc::gen::inRange(1, 90));
    const std::int64_t tokens = write_numbered_tokens(
        prefixes.emplace_back(folder / fmt::format("set-{}", source)), lengths);
    const int times = *rc::gen::inRange(1, 4);
    mixture.epochs.push_back(times);
    expected.emplace_back(static_cast<std::size_t>(tokens), times);
    for (const std::int32_t length : lengths)
      sequences += static_cast<std::size_t>(times * ((length + context - 1) / context));
    shape.vocab_size = std::max(shape.vocab_size, tokens);
  }
  const DocumentReader reader(prefixes, shape, "config.json", LossKind::kToken);
  for (std::vector<Tokens>& lengths : reader.lengths())
    mixture.sources.push_back({"set", std::move(lengths)});
  const std::size_t of_first = mixture.sources.front().lengths.size();
  const SamplerOptions options{{Tokens(context)}, Tokens(*rc::gen::inRange(1, 200))};
  const auto epoch = drawn(mixture, options, *rc::gen::arbitrary<std::uint64_t>(), sequences,
                           *rc::gen::inRange(1, 5));
  const StepTokens read = reader.read(epoch);
  std::vector<std::vector<int>> trained;
  for (const std::vector<int>& tokens : expected) trained.emplace_back(tokens.size());
  for (std::size_t s = 0; s < epoch.size(); ++s) {
    const auto& tokens_L = read.by_sequence[s].tokens_L;
    for (std::int64_t i = 0; i < tokens_L.numel(); ++i)
      ++trained[epoch[s].document < of_first ? 0 : 1]
               [static_cast<std::size_t>(tokens_L.const_data_ptr<std::int64_t>()[i])];
  }
  RC_ASSERT(trained == expected);
}

}  // namespace
}  // namespace slimpack
