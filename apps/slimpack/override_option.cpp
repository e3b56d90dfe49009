#include "apps/slimpack/override_option.h"

namespace slimpack {

void add_overrides(CLI::App& command, std::vector<std::string>& overrides) {
  command.add_option("--set", overrides, "Change one key of the configuration (repeatable)")
      ->type_name("section.key=value")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
}

}  // namespace slimpack
