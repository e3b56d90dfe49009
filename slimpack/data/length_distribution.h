// Distributions of document lengths, for planning before there is data.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "slimpack/base/random.h"
#include "slimpack/base/units.h"

namespace slimpack {

struct LengthDistribution {
  enum class Kind : std::uint8_t {
    kLogNormal,  ///< ln(length) ~ N(first, second²)
    kPareto,     ///< P(length > x) = (first / x)^second for x ≥ first
    kUniform,    ///< between first and second
  };
  Kind kind = Kind::kLogNormal;
  double first = 0;
  double second = 0;

  /// A length before it is rounded, of 0 or more.
  [[nodiscard]] double draw(Rng& rng) const;
};

/// "log-normal:7.5,1.9", "pareto:256,1.1" or "uniform:512,8192". Throws InvalidInput naming `what`,
/// the text and the rule.
[[nodiscard]] LengthDistribution parse_length_distribution(std::string_view text,
                                                           std::string_view what);

/// Document lengths, each from 1 to 2^31 − 1, until `tokens` are reached or passed.
[[nodiscard]] std::vector<Tokens> drawn_documents(const LengthDistribution& distribution, Rng& rng,
                                                  Tokens tokens);

}  // namespace slimpack
