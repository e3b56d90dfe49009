#include "slimpack/base/json_fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <string>

namespace slimpack {

using nlohmann::json;

namespace {

constexpr int kDeepest = 100;

constexpr std::string_view kPythonFloats[] = {"NaN", "Infinity", "-Infinity"};

/// The text with Python's words for floats, outside of strings, as objects of JSON.
std::string without_python_floats(std::string_view text) {
  std::string out;
  bool in_string = false;
  for (std::size_t i = 0; i < text.size();) {
    const auto starts = [&](std::string_view word) { return text.substr(i).starts_with(word); };
    const auto* found =
        in_string ? std::end(kPythonFloats)
                  : std::find_if(std::begin(kPythonFloats), std::end(kPythonFloats), starts);
    if (found != std::end(kPythonFloats)) {
      out += fmt::format(R"({{"__float__": "{}"}})", *found);
      i += found->size();
      continue;
    }
    if (text[i] == '"') in_string = !in_string;
    const std::size_t count = in_string && text[i] == '\\' && i + 1 < text.size() ? 2 : 1;
    out += text.substr(i, count);
    i += count;
  }
  return out;
}

/// The place of the first bracket that opens a value deeper than kDeepest; npos if there is none.
/// The library reads any depth, but copying or printing such a value would exhaust the stack.
std::size_t too_deep_at(std::string_view text) {
  int depth = 0;
  bool in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '"')
      in_string = !in_string;
    else if (in_string)
      i += c == '\\' ? 1 : 0;
    else if (c == '[' || c == '{')
      ++depth;
    else if (c == ']' || c == '}')
      --depth;
    if (depth > kDeepest) return i;
  }
  return std::string_view::npos;
}

}  // namespace

json parse_json(std::string_view text, std::string_view origin) {
  if (const std::size_t place = too_deep_at(text); place != std::string_view::npos)
    invalid_input("{}: values are nested more than {} deep at byte {}; nest them less", origin,
                  kDeepest, place);
  try {
    return json::parse(text);
  } catch (const json::parse_error& e) {
    invalid_input("{}: not valid JSON near byte {}; check that the file is complete", origin,
                  e.byte);
  } catch (const json::exception& e) {
    // A number beyond double's range (1e999) throws something other than parse_error.
    invalid_input("{}: not usable JSON: {}; correct the value", origin, e.what());
  }
}

json parse_python_json(std::string_view text, std::string_view origin) {
  return parse_json(without_python_floats(text), origin);
}

JsonFields::JsonFields(const json& object, std::string origin)
    : object_(&object), origin_(std::move(origin)) {
  if (!object.is_object())
    invalid_input("{}: expected a JSON object, found {}", origin_, object.type_name());
}

bool JsonFields::has(const char* key) const {
  const auto it = object_->find(key);
  return it != object_->end() && !it->is_null();
}

const json& JsonFields::at(const char* key) const {
  const auto it = object_->find(key);
  if (it == object_->end()) invalid_input("{}: field \"{}\" is missing", origin_, key);
  return *it;
}

std::int64_t JsonFields::integer(const char* key, std::int64_t low, std::int64_t high) const {
  return json_integer(at(key), fmt::format("{}: field \"{}\"", origin_, key), low, high);
}

double JsonFields::number(const char* key) const {
  const json& value = at(key);
  if (!value.is_number() || !std::isfinite(value.get<double>()))
    invalid_input("{}: field \"{}\" must be a finite number, found {}", origin_, key, value.dump());
  return value.get<double>();
}

bool JsonFields::boolean(const char* key) const {
  const json& value = at(key);
  if (!value.is_boolean())
    invalid_input("{}: field \"{}\" must be true or false, found {}", origin_, key, value.dump());
  return value.get<bool>();
}

std::string JsonFields::text(const char* key) const {
  const json& value = at(key);
  if (!value.is_string())
    invalid_input("{}: field \"{}\" must be a string, found {}", origin_, key, value.dump());
  return value.get<std::string>();
}

const json& JsonFields::array(const char* key) const {
  const json& value = at(key);
  if (!value.is_array())
    invalid_input("{}: field \"{}\" must be an array, found {}", origin_, key, value.type_name());
  return value;
}

JsonFields JsonFields::object(const char* key) const {
  return JsonFields(at(key), fmt::format("{}: {}", origin_, key));
}

void JsonFields::require_format(std::string_view format, std::int64_t version) const {
  if (text("format") != format)
    invalid_input("{}: format is \"{}\", expected \"{}\"", origin_, text("format"), format);
  if (integer("version") != version)
    invalid_input("{}: version {} is not known; this program reads version {}", origin_,
                  integer("version"), version);
}

std::int64_t json_integer(const json& value, std::string_view where, std::int64_t low,
                          std::int64_t high) {
  const bool fits = value.is_number_unsigned()
                        ? value.get<std::uint64_t>() <= static_cast<std::uint64_t>(INT64_MAX)
                        : value.is_number_integer();
  if (!fits) invalid_input("{} must be an integer, found {}", where, value.dump());
  const auto number = value.get<std::int64_t>();
  if (number < low || number > high)
    invalid_input("{} is {}, allowed are {} to {}", where, number, low, high);
  return number;
}

}  // namespace slimpack
