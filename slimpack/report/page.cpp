#include "slimpack/report/page.h"

#include <array>
#include <nlohmann/json.hpp>

#include "slimpack/base/error.h"
#include "slimpack/report/page_sources.h"

namespace slimpack {
namespace {

/// The scripts in the order in which the browser runs them.
constexpr std::array kScripts{"uplot/uPlot.iife.min.js",
                              "format.js",
                              "scheme.js",
                              "time_axis.js",
                              "timeline.js",
                              "tooltip.js",
                              "charts.js",
                              "tables.js",
                              "main.js"};
constexpr std::array kStyles{"uplot/uPlot.min.css", "page.css"};

/// JSON that may stand in a script element, which ends at the first "</".
std::string json_in_script(const nlohmann::ordered_json& data) {
  const std::string text = data.dump();
  std::string out;
  out.reserve(text.size());
  for (const char c : text)
    if (c == '<')
      out += "\\u003c";
    else
      out += c;
  return out;
}

template <std::size_t n>
std::string joined(const std::array<const char*, n>& names) {
  std::string text;
  for (const char* name : names) text += std::string(page_source(name)) + "\n";
  return text;
}

/// Puts `text` in place of the only `mark`.
void fill(std::string& page, std::string_view mark, std::string_view text) {
  const std::size_t place = page.find(mark);
  SLIMPACK_CHECK(place != std::string::npos, "page.html has no {}", mark);
  page.replace(place, mark.size(), text);
}

}  // namespace

std::string page_html(const nlohmann::ordered_json& data) {
  std::string page(page_source("page.html"));
  fill(page, "{{style}}", joined(kStyles));
  fill(page, "{{script}}", joined(kScripts));
  fill(page, "{{data}}", json_in_script(data));
  return page;
}

}  // namespace slimpack
