#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <vector>

#include "apps/slimpack/output_options.h"
#include "apps/slimpack/training_commands.h"
#include "slimpack/base/error.h"
#include "slimpack/base/file.h"
#include "slimpack/base/human.h"
#include "slimpack/base/json_text.h"
#include "slimpack/base/progress.h"
#include "slimpack/base/table.h"
#include "slimpack/report/validation_report.h"
#include "slimpack/training/console.h"
#include "slimpack/training/validate.h"

namespace slimpack {

void validate_run(const ValidateArguments& arguments) {
  const ValidationRequest request{configured_run(arguments, arguments.clock), arguments.steps,
                                  arguments.repetitions};
  std::vector<StepErrors> steps;
  {
    Console console(stderr);  // destroyed before the last lines: it may have an unfinished line
    Progress progress(stderr, progress_style(stderr), "running steps",
                      request.steps * (request.repetitions + 1));
    steps = validate(
        request, console, [] { return false; }, [&] { progress.advance(); });
  }
  if (!arguments.json.empty())
    write_file(arguments.json, json_text(validation_json(steps), 2) + "\n");
  std::FILE* const out = report_stream({arguments.json});
  fmt::print(out, "{}", validation_text(steps, output_columns(out)));
  const double error = summary_of(steps).mean_error;
  if (arguments.max_error > 0 && error > arguments.max_error / 100)
    throw RunFailed(fmt::format(
        "predicted steps are {} off on average, --max-error allows {}; measure again with "
        "'slimpack profile', or allow more",
        human_share(error), human_share(arguments.max_error / 100)));
}

}  // namespace slimpack
