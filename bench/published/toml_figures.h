// New figures in a TOML file whose comments stay.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace slimpack::bench {

/// The text with the value of each key replaced, in four digits. Throws InvalidInput naming
/// `origin` if a line "key = value" is missing.
[[nodiscard]] std::string with_figures(std::string text,
                                       std::span<const std::pair<std::string_view, double>> figures,
                                       std::string_view origin);

}  // namespace slimpack::bench
