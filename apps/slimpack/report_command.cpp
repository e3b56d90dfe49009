#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "apps/slimpack/commands.h"
#include "apps/slimpack/output_options.h"
#include "apps/slimpack/run_terms_options.h"
#include "slimpack/base/file.h"
#include "slimpack/base/json_text.h"
#include "slimpack/base/progress.h"
#include "slimpack/report/page.h"
#include "slimpack/report/report_source.h"
#include "slimpack/report/timeline_picture.h"

namespace slimpack {
namespace {

struct ReportArguments {
  std::string source;
  std::string out;
  std::string svg;
  std::string json;
  RunTermsOptions terms;
};

/// Beside the plan, or in the run's folder.
std::filesystem::path page_path(const ReportArguments& arguments, const ReportSource& source) {
  if (!arguments.out.empty()) return arguments.out;
  const std::filesystem::path path(arguments.source);
  return source.measured ? path / kReportName
                         : std::filesystem::path(path).replace_extension("html");
}

void write_page(const ReportArguments& arguments, const ReportSource& source,
                const std::optional<RunTerms>& run) {
  const std::filesystem::path page = page_path(arguments, source);
  Progress progress(stderr, progress_style(stderr), "comparing planners", page_work());
  const nlohmann::ordered_json data = page_data(source, {.program = version_text(),
                                                         .advance = [&] { progress.advance(); },
                                                         .tick = [&] { progress.touch(); },
                                                         .run = run});
  if (!arguments.json.empty()) write_file(arguments.json, json_text(data) + "\n");
  write_file(page, page_html(data));
  if (page != "-")
    fmt::print(report_stream({arguments.json}), "{}: open it in a browser\n", page.string());
}

/// A picture alone needs no page.
bool wants_page(const ReportArguments& arguments) {
  return arguments.svg.empty() || !arguments.out.empty() || !arguments.json.empty();
}

/// Planners take long to compare, so what cannot be written is found first.
void require_writable_files(const ReportArguments& arguments, const ReportSource& source) {
  for (const std::string* file : {&arguments.svg, &arguments.json})
    if (!file->empty()) require_writable_file(*file);
  if (wants_page(arguments)) require_writable_file(page_path(arguments, source));
}

void report(const ReportArguments& arguments) {
  const ReportSource source = read_report_source(arguments.source);
  const std::optional<RunTerms> run = run_terms(arguments.terms, source.ranks());
  require_writable_files(arguments, source);
  if (!arguments.svg.empty()) {
    write_file(arguments.svg, step_svg(source.plan, source.limits()));
    if (arguments.svg != "-")
      fmt::print(report_stream({arguments.json, arguments.out}), "{}\n", arguments.svg);
  }
  if (wants_page(arguments)) write_page(arguments, source, run);
}

}  // namespace

void add_report_command(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("report", "Show a run or a plan as a page for the browser");
  const auto arguments = std::make_shared<ReportArguments>();
  command
      ->add_option("RUN", arguments->source,
                   "Folder of a run (output.dir), or a plan that 'slimpack plan' wrote")
      ->required();
  command
      ->add_option("--out", arguments->out,
                   "Write the page to FILE instead of RUN/report.html or PLAN.html")
      ->type_name("FILE");
  command
      ->add_option("--svg", arguments->svg,
                   "Draw the documents as packed and as planned to FILE; without --out no page")
      ->type_name("FILE");
  command->add_option("--json", arguments->json, "Write all that the page shows to FILE as JSON")
      ->type_name("FILE");
  add_run_terms(*command, arguments->terms);
  command->footer(
      "The page has the predicted and the measured timeline of a run's last step, memory, loss and "
      "speed, and the same documents under the planners that users run today. It is one file that "
      "needs no network, so it can be sent. docs/report.md explains it.\n\n"
      "Example:\n"
      "  slimpack report runs/mine\n"
      "  slimpack report plan.json --svg plan.svg\n\n"
      "Example, for whoever pays:\n"
      "  slimpack report plan.json --run-tokens 200B --price-per-gpu-hour 2.50");
  command->callback([arguments] { report(*arguments); });
}

}  // namespace slimpack
