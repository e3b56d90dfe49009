#include "apps/slimpack/commands.h"
#include "apps/slimpack/python_command.h"
#include "apps/slimpack/sweep_command.h"
#include "apps/slimpack/training_commands.h"
#include "slimpack/packflow/device/memory_tracker.h"
#include "slimpack/training/console.h"

namespace {

void train(const slimpack::TrainArguments& arguments) {
  slimpack::TrainRequest request{slimpack::configured_run(arguments, arguments.clock),
                                 arguments.resume, arguments.init, !arguments.against.empty()};
  request.log_command = slimpack::python_words("slimpack.log");
  if (arguments.report) request.report = slimpack::version_text();
  slimpack::train_at_console(request);
}

}  // namespace

int main(int argc, char** argv) {
  slimpack::install_memory_tracker();
  CLI::App app{"SlimPack's training program; 'slimpack' starts it.", "slimpack"};
  app.require_subcommand(1);
  slimpack::add_profile_command(app, slimpack::profile);
  slimpack::add_sweep_command(app, slimpack::measured_sweep);
  slimpack::add_train_command(app, train);
  slimpack::add_validate_command(app, slimpack::validate_run);
  return slimpack::run_program(app, argc, argv);
}
