// Text in pictures.
#pragma once

#include <string>
#include <string_view>

namespace slimpack {

/// The text as an element of XML holds it: '<' and '&' are written as entities.
[[nodiscard]] std::string xml_text(std::string_view text);

}  // namespace slimpack
