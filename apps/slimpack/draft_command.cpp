#include "apps/slimpack/commands.h"

namespace slimpack {

void add_draft_command(CLI::App& app) {
  app.add_subcommand("draft", "Train draft heads for speculative decoding (in Python)");
}

}  // namespace slimpack
