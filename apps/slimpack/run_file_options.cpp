#include "apps/slimpack/run_file_options.h"

namespace slimpack {

CLI::Option* add_run_file(CLI::App& command, RunFile& run) {
  command.add_option("--set", run.overrides, "Change one key of the configuration (repeatable)")
      ->type_name("section.key=value")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  return command.add_option("RUN.toml", run.config, "Run configuration");
}

}  // namespace slimpack
