#include "bench/planner/lengths.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "slimpack/base/error.h"
#include "slimpack/data/length_distribution.h"
#include "slimpack/data/lengths.h"

namespace slimpack::bench {
namespace {

constexpr LengthDistribution kPareto{LengthDistribution::Kind::kPareto, 256, 1.1};

LengthDistribution log_normal(const LogNormal& shape = {}) {
  return {LengthDistribution::Kind::kLogNormal, shape.mean_of_log, shape.deviation_of_log};
}

Tokens rounded(double length, Tokens context) {
  const double most = static_cast<double>(context.count());
  return Tokens(std::llround(std::clamp(length, 1.0, most)));
}

double bimodal(Rng& rng, double context) {
  if (rng.below(10) > 0) return 1024 * (1 + 0.25 * rng.normal());
  return context * (0.5 + 0.5 * rng.uniform());
}

}  // namespace

SequenceLengths real_lengths(const std::filesystem::path& file, std::size_t count, Tokens context) {
  SequenceLengths lengths = read_lengths(file);
  if (lengths.size() < count)
    invalid_input("length list '{}' holds {} lengths, {} are needed; give a longer list",
                  file.string(), lengths.size(), count);
  lengths.resize(count);
  for (Tokens& length : lengths) length = std::min(length, context);
  return lengths;
}

SequenceLengths log_normal_lengths(std::uint64_t seed, std::size_t count, Tokens context,
                                   const LogNormal& shape) {
  Rng rng(seed);
  SequenceLengths lengths;
  while (lengths.size() < count) lengths.push_back(rounded(log_normal(shape).draw(rng), context));
  return lengths;
}

SequenceLengths pareto_lengths(std::uint64_t seed, std::size_t count, Tokens context) {
  Rng rng(seed);
  SequenceLengths lengths;
  while (lengths.size() < count) lengths.push_back(rounded(kPareto.draw(rng), context));
  return lengths;
}

std::string_view to_string(Family family) {
  switch (family) {
    case Family::kLogNormal:
      return "log-normal";
    case Family::kPareto:
      return "Pareto";
    case Family::kBimodal:
      return "bimodal";
    case Family::kEqual:
      return "equal";
  }
  return {};
}

SequenceLengths drawn_lengths(Family family, Rng& rng, Tokens tokens, Tokens context) {
  const double most = static_cast<double>(context.count());
  std::function<double()> draw;
  switch (family) {
    case Family::kLogNormal:
      draw = [&] { return log_normal().draw(rng); };
      break;
    case Family::kPareto:
      draw = [&] { return kPareto.draw(rng); };
      break;
    case Family::kBimodal:
      draw = [&] { return bimodal(rng, most); };
      break;
    case Family::kEqual:
      draw = [length = 1024 + rng.uniform() * (most - 1024)] { return length; };
      break;
  }
  SequenceLengths lengths;
  for (Tokens drawn; drawn < tokens; drawn += lengths.back())
    lengths.push_back(rounded(draw(), context));
  return lengths;
}

}  // namespace slimpack::bench
