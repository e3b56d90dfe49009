#include "apps/slimpack/output_options.h"

#include <algorithm>

namespace slimpack {

void add_json(CLI::App& command, std::string& file) {
  command
      .add_option("--json", file,
                  "Write the printed figures to FILE as JSON; - = to the standard output, and the "
                  "report to the standard error")
      ->type_name("FILE");
}

std::FILE* report_stream(std::initializer_list<std::string> files) {
  return std::ranges::find(files, "-") == files.end() ? stdout : stderr;
}

}  // namespace slimpack
