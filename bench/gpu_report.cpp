#include "bench/gpu_report.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "slimpack/base/human.h"
#include "slimpack/base/table.h"

namespace slimpack {
namespace {

using nlohmann::json;

Bytes bytes_of(const json& figures, const char* key) {
  return Bytes(figures[key].get<std::int64_t>());
}

/// "+1.2%": by how much the prediction is above what was measured.
std::string error_of(double predicted, double measured) {
  const double tenths = std::round((predicted / measured - 1) * 1000);
  return fmt::format("{:+.1f}%", tenths / 10 + 0.0);  // never "-0.0%"
}

ReportSection job_section(const json& f) {
  const bool there = !f["device"].is_null();
  std::string text = fmt::format("{} parameters; {} documents, {} tokens, longest {}, bf16{}\n",
                                 human_count(f["parameters"]), f["documents"].get<std::int64_t>(),
                                 grouped(f["tokens"].get<std::int64_t>()),
                                 grouped(f["longest"].get<std::int64_t>()),
                                 f["deterministic"].get<bool>() ? ", the same bits each time" : "");
  if (!there)
    text += fmt::format(
        "There is no CUDA device here. With one, this program measures the model's layers\n"
        "on it, runs each step below {} times in turn, profiles one, and compares\n"
        "gradients and step time with Hugging Face's. Predictions are for one\n"
        "{} by its hardware file.\n",
        f["repetitions"].get<int>(), f["hardware"].get<std::string>());
  return {fmt::format("One training step on {}", there ? f["device"].get<std::string>() : "no GPU"),
          text};
}

/// A measured figure of a way, if it has run.
template <typename Text>
std::string measured(const json& way, const char* key, Text text) {
  return way.contains(key) ? text(way[key]) : "";
}

ReportSection times_section(const json& ways) {
  Table table({{"", Align::kLeft},
               {"recomputes", Align::kLeft},
               {"step"},
               {"predicted"},
               {"error"},
               {"tokens/s"},
               {"MFU"}});
  for (const json& way : ways) {
    const double predicted = way["predicted_seconds"];
    table.add_row({way["way"], way["recompute"],
                   measured(way, "seconds", [](double s) { return fmt::format("{:.3f} s", s); }),
                   fmt::format("{:.3f} s", predicted),
                   measured(way, "seconds", [&](double s) { return error_of(predicted, s); }),
                   measured(way, "tokens_per_second", human_count),
                   measured(way, "mfu", human_share)});
  }
  return {"Time of a step", table.text()};
}

ReportSection memory_section(const json& ways) {
  Table table({{"", Align::kLeft}, {"peak"}, {"predicted"}, {"error"}});
  for (const json& way : ways) {
    const Bytes planned = bytes_of(way, "predicted_peak_activation_bytes");
    const auto error = [&](double peak) {
      return error_of(static_cast<double>(planned.count()), peak);
    };
    const auto bytes = [](std::int64_t peak) { return human_bytes(Bytes(peak)); };
    table.add_row({way["way"], measured(way, "peak_activation_bytes", bytes), human_bytes(planned),
                   measured(way, "peak_activation_bytes", error)});
  }
  return {"Memory for activations", table.text()};
}

/// Names of kernels have arguments of templates, which fill pages.
std::string short_name(const std::string& name) {
  constexpr std::size_t kLongest = 50;
  const std::string bare = name.starts_with("void ") ? name.substr(5) : name;
  return bare.size() <= kLongest ? bare : bare.substr(0, kLongest - 1) + "…";
}

ReportSection operators_section(const json& f) {
  Table table({{"operator", Align::kLeft}, {"calls"}, {"ms"}, {"share"}});
  for (const json& op : f["operators"])
    table.add_row({short_name(op["name"]), grouped(op["calls"].get<std::int64_t>()),
                   fmt::format("{:.2f}", op["seconds"].get<double>() * 1e3),
                   human_share(op["share"])});
  std::string text = table.text();
  if (!f["idle"].is_null())
    text += fmt::format("\nIn {:.3f} s of a step of {:.3f} s no kernel ran.\n",
                        f["idle"].get<double>(), f["seconds"].get<double>());
  return {"Time of operators in one step, profiled", text};
}

ReportSection gradients_section(const json& g) {
  return {"Distance of bf16 gradients from those in fp32",
          fmt::format("PackFlow {:.4f}, Hugging Face {:.4f} of the gradient's length, {} tokens\n",
                      g["packflow"].get<double>(), g["hugging_face"].get<double>(),
                      grouped(g["tokens"].get<std::int64_t>()))};
}

ReportSection hugging_face_section(const json& h, const json& slimpack) {
  const double seconds = h["seconds"];
  return {fmt::format("Hugging Face, {}, on {}", h["way"].get<std::string>(),
                      h["card"].get<std::string>()),
          fmt::format("{:.3f} s, {:.2f} × slimpack's; layers {}; peak of all memory {}\n", seconds,
                      seconds / slimpack["seconds"].get<double>(),
                      h["recomputes"].get<bool>() ? "recomputed" : "kept",
                      human_bytes(bytes_of(h, "peak_bytes")))};
}

}  // namespace

std::vector<ReportSection> report_sections(const json& figures) {
  std::vector<ReportSection> sections{job_section(figures), times_section(figures["ways"]),
                                      memory_section(figures["ways"])};
  if (figures.contains("operators")) sections.push_back(operators_section(figures["operators"]));
  if (figures.contains("gradients")) sections.push_back(gradients_section(figures["gradients"]));
  for (const char* rival : {"hugging_face", "hugging_face_tuned"})
    if (figures.contains(rival))
      sections.push_back(hugging_face_section(figures[rival], figures["ways"][1]));
  return sections;
}

std::string terminal_text(std::span<const ReportSection> sections) {
  std::string text;
  for (const auto& [title, lines] : sections) text += fmt::format("{}\n\n{}\n", title, lines);
  return text;
}

std::string page_text(std::span<const ReportSection> sections) {
  std::string page;
  for (const auto& [title, lines] : sections)
    page += fmt::format("{} {}\n\n```text\n{}```\n\n", page.empty() ? "#" : "##", title, lines);
  return page;
}

}  // namespace slimpack
