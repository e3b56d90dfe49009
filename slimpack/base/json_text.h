// JSON values as text. The library's writer is a template that compiles for a second wherever it is
// used, so it is compiled here alone.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace slimpack {

/// The value's text: on one line, or with `indent` spaces for each level. Throws
/// nlohmann::json::type_error for strings that are no UTF-8.
[[nodiscard]] std::string json_text(const nlohmann::json& value, int indent = -1);
[[nodiscard]] std::string json_text(const nlohmann::ordered_json& value, int indent = -1);

/// The text as JSON writes strings, in quotes. Bytes that are no UTF-8 become U+FFFD.
[[nodiscard]] std::string json_string(std::string_view text);

}  // namespace slimpack
