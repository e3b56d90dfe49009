#include "apps/slimpack/run_terms_options.h"

#include <charconv>
#include <string_view>
#include <utility>

#include "slimpack/base/error.h"

namespace slimpack {
namespace {

/// A number with one of the units behind it, which are written as people write them; nullopt for
/// any other text.
std::optional<double> number_of(std::string_view text, std::string_view units) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  std::string_view unit = text.substr(static_cast<std::size_t>(end - text.data()));
  if (error != std::errc() || unit.size() > 1) return std::nullopt;
  if (!unit.empty()) {
    const std::size_t power = units.find(unit);
    if (power == std::string_view::npos) return std::nullopt;
    for (std::size_t i = 0; i <= power; ++i) number *= 1000;
  }
  constexpr double kLargest = 1e18;
  if (!(number > 0 && number <= kLargest)) return std::nullopt;
  return number;
}

double tokens_of(const std::string& text) {
  const auto tokens = number_of(text, "kMBT");
  if (!tokens)
    invalid_input(
        "--run-tokens is \"{}\", must be a number from above 0 to 1e18, with k, M, B or T for "
        "thousands to trillions; for example 200B",
        text);
  return *tokens;
}

double price_of(const std::string& text) {
  const auto price = number_of(text, "");
  if (!price)
    invalid_input(
        "--price-per-gpu-hour is \"{}\", must be a number from above 0 to 1e18; for example 2.50",
        text);
  return *price;
}

}  // namespace

void add_run_terms(CLI::App& command, RunTermsOptions& options) {
  command
      .add_option_function<std::string>(
          "--run-tokens", [&](const std::string& text) { options.tokens = tokens_of(text); },
          "Say what a run of so many tokens takes, as in 200B or 15T")
      ->type_name("N");
  command
      .add_option_function<std::string>(
          "--price-per-gpu-hour", [&](const std::string& text) { options.price = price_of(text); },
          "Say what the run costs at this price, in any currency")
      ->type_name("PRICE");
}

std::optional<RunTerms> run_terms(const RunTermsOptions& options, std::int64_t ranks,
                                  double usual_tokens) {
  if (!options.tokens && !options.price) return std::nullopt;
  const RunTerms terms{options.tokens.value_or(usual_tokens), ranks, options.price};
  if (terms.tokens <= 0)
    invalid_input(
        "--price-per-gpu-hour asks what a run costs; say of how many tokens, with "
        "--run-tokens N");
  return terms;
}

}  // namespace slimpack
