#include "slimpack/data/length_distribution.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <iterator>
#include <limits>
#include <optional>
#include <string>

#include "slimpack/base/error.h"

namespace slimpack {
namespace {

using Kind = LengthDistribution::Kind;

struct Rule {
  std::string_view name;
  Kind kind;
  std::string_view text;
  bool (*holds)(double first, double second);
};

constexpr Rule kRules[] = {
    {"log-normal", Kind::kLogNormal,
     "log-normal:MEAN,DEVIATION of the length's logarithm, 0 to 20 and 0 to 10",
     [](double mean, double deviation) {
       return mean >= 0 && mean <= 20 && deviation >= 0 && deviation <= 10;
     }},
    {"pareto", Kind::kPareto, "pareto:SHORTEST,INDEX with SHORTEST ≥ 1 and INDEX > 0",
     [](double shortest, double index) { return shortest >= 1 && index > 0; }},
    {"uniform", Kind::kUniform, "uniform:SHORTEST,LONGEST with 1 ≤ SHORTEST ≤ LONGEST",
     [](double shortest, double longest) { return 1 <= shortest && shortest <= longest; }},
};

/// All of the text as a finite number.
std::optional<double> number(std::string_view text) {
  double value = 0;
  const char* end = text.data() + text.size();
  const auto [read, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || read != end || !std::isfinite(value)) return std::nullopt;
  return value;
}

}  // namespace

double LengthDistribution::draw(Rng& rng) const {
  switch (kind) {
    case Kind::kLogNormal:
      return std::exp(first + second * rng.normal());
    case Kind::kPareto:
      return first * std::pow(1 - rng.uniform(), -1 / second);
    case Kind::kUniform:
      return first + (second - first) * rng.uniform();
  }
  return 0;
}

LengthDistribution parse_length_distribution(std::string_view text, std::string_view what) {
  const std::size_t colon = std::min(text.find(':'), text.size());
  const std::string_view name = text.substr(0, colon);
  const auto* rule = std::ranges::find(kRules, name, &Rule::name);
  if (rule == std::end(kRules))
    invalid_input("{}: \"{}\" is no distribution; use log-normal, pareto or uniform, as in {}",
                  what, text, "log-normal:7.5,1.9");
  const std::string_view numbers = text.substr(std::min(colon + 1, text.size()));
  const std::size_t comma = std::min(numbers.find(','), numbers.size());
  const auto first = number(numbers.substr(0, comma));
  const auto second = number(numbers.substr(std::min(comma + 1, numbers.size())));
  if (!first || !second || !rule->holds(*first, *second))
    invalid_input("{}: \"{}\" must be {}", what, text, rule->text);
  return {rule->kind, *first, *second};
}

std::vector<Tokens> drawn_documents(const LengthDistribution& distribution, Rng& rng,
                                    Tokens tokens) {
  constexpr double kMost = std::numeric_limits<std::int32_t>::max();
  std::vector<Tokens> lengths;
  for (Tokens drawn; drawn < tokens; drawn += lengths.back())
    lengths.emplace_back(std::llround(std::clamp(distribution.draw(rng), 1.0, kMost)));
  return lengths;
}

}  // namespace slimpack
