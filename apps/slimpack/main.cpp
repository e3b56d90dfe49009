#include "apps/slimpack/commands.h"

int main(int argc, char** argv) {
  CLI::App app{"SlimPack trains language models on documents of very different lengths."};
  app.require_subcommand(1);
  slimpack::add_data_command(app);
  return slimpack::run_program(app, argc, argv);
}
