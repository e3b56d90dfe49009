// Texts of run configurations, read as TOML of a file "run.toml" in the folder "/base".
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "slimpack/base/error.h"
#include "slimpack/spec/run_config.h"

namespace slimpack::run_config_texts {

inline constexpr std::string_view kModel = "[model]\nconfig = \"m.json\"\n";

inline RunConfig parse(std::string_view text, const std::vector<std::string>& overrides = {}) {
  return run_config_from_toml(text, "run.toml", overrides, "/base");
}

inline RunConfig parse_more(std::string_view text, const std::vector<std::string>& overrides = {}) {
  return parse(fmt::format("{}{}", kModel, text), overrides);
}

inline std::string error_of(std::string_view text, const std::vector<std::string>& overrides = {}) {
  try {
    (void)parse(text, overrides);
    return "accepted";
  } catch (const InvalidInput& e) {
    return e.what();
  }
}

/// Fails unless the text is refused in one line that begins with a place and has `part`.
inline void expect_refused(std::string_view text, std::string_view part) {
  const std::string message = error_of(text);
  EXPECT_EQ(message.rfind("run.toml", 0), 0U) << message;
  EXPECT_NE(message.find(part), std::string::npos) << message;
  EXPECT_EQ(message.find('\n'), std::string::npos) << message;
}

}  // namespace slimpack::run_config_texts
