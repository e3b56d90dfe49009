#include "slimpack/baselines/tuning.h"

#include <fmt/format.h>

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

}  // namespace slimpack
