#include "slimpack/base/json_text.h"

#include <nlohmann/json.hpp>

namespace slimpack {

std::string json_text(const nlohmann::json& value, int indent) {
  return value.dump(indent);
}

std::string json_text(const nlohmann::ordered_json& value, int indent) {
  return value.dump(indent);
}

std::string json_string(std::string_view text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace slimpack
