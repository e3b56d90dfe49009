#include "bench/step_options.h"

#include <string>

namespace slimpack {

void add_step_options(CLI::App& app, StepOptions& options) {
  const auto tokens = [&](const char* name, Tokens& value, const char* help) {
    app.add_option_function<std::int64_t>(
           name, [&value](std::int64_t count) { value = Tokens(count); }, help)
        ->check(CLI::PositiveNumber)
        ->default_str(std::to_string(value.count()));
  };
  tokens("--context", options.context, "Documents are truncated here");
  tokens("--step-tokens", options.step_tokens, "Documents are drawn up to this");
  // Two repetitions have no middle one.
  app.add_option("--repetitions", options.repetitions, "Medians are taken over these, at least 3")
      ->capture_default_str()
      ->check(CLI::Range(3, 1000));
  app.add_flag_callback(
      "--quick",
      [&options] { options.context = Tokens(4096), options.step_tokens = Tokens(16384); },
      "Context 4,096 and 16,384 tokens");
  app.add_option("--json", options.json, "Write the figures here");
}

}  // namespace slimpack
