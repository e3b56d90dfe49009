// Reports bench/gpu's figures to people.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <vector>

namespace slimpack {

struct ReportSection {
  std::string title;
  std::string text;  ///< lines and tables of at most 80 columns, with ends of lines
};

/// Job, times, memory, operators, gradients and Hugging Face's steps, as far as `figures` (the
/// program's JSON) has them.
[[nodiscard]] std::vector<ReportSection> report_sections(const nlohmann::json& figures);

[[nodiscard]] std::string terminal_text(std::span<const ReportSection> sections);
/// A page in Markdown.
[[nodiscard]] std::string page_text(std::span<const ReportSection> sections);

}  // namespace slimpack
