// The page of a report: HTML with style, script and data inside, for a browser without a network.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace slimpack {

/// The whole page for page_data. Its sources are the files in slimpack/report/page.
[[nodiscard]] std::string page_html(const nlohmann::ordered_json& data);

}  // namespace slimpack
