// The sources of the page (slimpack/report/page), which the build puts into the library.
#pragma once

#include <string_view>

namespace slimpack {

/// The text of slimpack/report/page/NAME. Aborts for a name that was not embedded.
[[nodiscard]] std::string_view page_source(std::string_view name);

}  // namespace slimpack
