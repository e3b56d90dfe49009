#include "slimpack/baselines/tuning.h"

#include <fmt/format.h>
#include <algorithm>

#include "slimpack/baselines/makers.h"

namespace slimpack {
namespace {

std::string in_k(Tokens tokens) {
  return tokens.count() % 1024 == 0 ? fmt::format("{}K", tokens.count() / 1024)
                                    : fmt::format("{}", tokens.count());
}

const char* words(Dealing dealing) {
  switch (dealing) {
    case Dealing::kPublished:
      return "";
    case Dealing::kInTurn:
      return "dealt in turn";
    case Dealing::kByTime:
      return "dealt by time";
  }
  return "";
}

const char* words(PackOrder order) {
  switch (order) {
    case PackOrder::kPublished:
      return "";
    case PackOrder::kHeaviestFirst:
      return "heaviest first";
    case PackOrder::kLightestFirst:
      return "lightest first";
    case PackOrder::kLightAtBothEnds:
      return "light at both ends";
  }
  return "";
}

/// Packs of so many eighths of the context.
constexpr std::int64_t kEighths[] = {6, 4, 3, 2};

}  // namespace

std::string describe(const Tuning& tuning) {
  std::string text;
  const auto add = [&](const std::string& part) {
    if (!part.empty()) text += (text.empty() ? "" : ", ") + part;
  };
  if (tuning.pack > Tokens(0)) add("packs of " + in_k(tuning.pack));
  if (tuning.share > Tokens(0)) add(in_k(tuning.share) + " tokens a replica");
  if (tuning.group > 0) add(fmt::format("{} replicas a pack", tuning.group));
  if (tuning.packs > 0) add(fmt::format("{} packs a replica", tuning.packs));
  if (tuning.slices > 0) add(fmt::format("{} slices a pack", tuning.slices));
  if (tuning.tails) add("tails packed");
  add(words(tuning.dealing));
  add(words(tuning.order));
  if (tuning.remap) add("remapped");
  if (tuning.split) add("split backwards");
  return text.empty() ? "as published" : text;
}

Tokens pack_tokens(const BaselineInput& input) {
  return input.tuning.pack > Tokens(0) ? input.tuning.pack : input.context;
}

std::vector<Tuning> pack_tunings(const BaselineInput& input) {
  std::vector<Tokens> sizes{Tokens(0)};
  if (!input.lengths.empty()) {
    const Tokens longest = *std::max_element(input.lengths.begin(), input.lengths.end());
    Tokens before = std::min(input.context, total_tokens(input.lengths));
    for (const std::int64_t eighths : kEighths) {
      const Tokens size = std::max(longest, input.context * eighths / 8);
      if (size < before) sizes.push_back(size);
      before = std::min(before, size);
    }
  }
  return varied({Tuning{}}, &Tuning::pack, sizes);
}

std::vector<Tuning> dealt_tunings(const BaselineInput& input, const std::vector<Tuning>& tunings) {
  if (input.lengths.size() <= 1) return tunings;
  const std::vector<PackOrder> orders{PackOrder::kPublished, PackOrder::kHeaviestFirst,
                                      PackOrder::kLightestFirst, PackOrder::kLightAtBothEnds};
  std::vector<Dealing> dealings{Dealing::kPublished};
  if (input.replicas() > 1) dealings.push_back(Dealing::kByTime);
  return varied(varied(tunings, &Tuning::dealing, dealings), &Tuning::order, orders);
}

}  // namespace slimpack
