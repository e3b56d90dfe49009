#include "apps/slimpack/commands.h"
#include "apps/slimpack/training_commands.h"
#include "slimpack/packflow/device/memory_tracker.h"

int main(int argc, char** argv) {
  slimpack::install_memory_tracker();
  CLI::App app{"SlimPack's training program; 'slimpack' starts it."};
  app.require_subcommand(1);
  slimpack::add_profile_command(app, slimpack::profile);
  slimpack::add_train_command(app, [](const auto& arguments) { slimpack::train(arguments); });
  return slimpack::run_program(app, argc, argv);
}
