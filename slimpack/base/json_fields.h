// Checked access to the fields of a JSON object: presence, type and range, with errors that name
// file, field, value and rule.
#pragma once

#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "slimpack/base/error.h"

namespace slimpack {

/// Parses JSON text. Throws InvalidInput naming `origin` and the place of the error. Refuses values
/// that are nested absurdly deep.
[[nodiscard]] nlohmann::json parse_json(std::string_view text, std::string_view origin);

/// Parses text that Python's json or transformers wrote, as parse_json. They write floats that JSON
/// has no words for as NaN, Infinity and -Infinity. Each becomes {"__float__": "Infinity"}, the
/// object that transformers reads as the float: fields that nobody asks for stay as they are, and a
/// number that is asked for is refused as no number.
[[nodiscard]] nlohmann::json parse_python_json(std::string_view text, std::string_view origin);

/// A JSON object together with where it came from ("plan.json: replicas[0]").
/// Keeps a reference: `object` must outlive it.
class JsonFields {
 public:
  /// Throws InvalidInput unless `object` is a JSON object.
  JsonFields(const nlohmann::json& object, std::string origin);

  [[nodiscard]] bool has(const char* key) const;  ///< present and not null
  [[nodiscard]] const nlohmann::json& at(const char* key) const;
  [[nodiscard]] std::int64_t integer(
      const char* key, std::int64_t low = std::numeric_limits<std::int64_t>::min(),
      std::int64_t high = std::numeric_limits<std::int64_t>::max()) const;
  [[nodiscard]] double number(const char* key) const;  ///< finite
  [[nodiscard]] bool boolean(const char* key) const;
  [[nodiscard]] std::string text(const char* key) const;
  [[nodiscard]] const nlohmann::json& array(const char* key) const;
  [[nodiscard]] JsonFields object(const char* key) const;
  [[nodiscard]] const std::string& origin() const { return origin_; }

  /// Throws InvalidInput unless "format" and "version" have these values.
  void require_format(std::string_view format, std::int64_t version) const;

 private:
  const nlohmann::json* object_;
  std::string origin_;
};

/// An integer element of an array, checked like JsonFields::integer.
[[nodiscard]] std::int64_t json_integer(const nlohmann::json& value, std::string_view where,
                                        std::int64_t low, std::int64_t high);

}  // namespace slimpack
