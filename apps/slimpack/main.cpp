#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "apps/slimpack/commands.h"
#include "apps/slimpack/python_command.h"
#include "apps/slimpack/sweep_command.h"
#include "apps/slimpack/training_commands.h"
#include "slimpack/base/error.h"

namespace {

/// Replaces this process by slimpack-train, the program beside this one, with the same arguments.
void become_training_program(char** argv) {
  const auto program =
      std::filesystem::read_symlink("/proc/self/exe").parent_path() / "slimpack-train";
  ::execv(program.c_str(), argv);
  slimpack::invalid_input(
      "cannot start '{}': {}; training needs libtorch: run 'make build', or configure without "
      "-DSLIMPACK_TORCH=OFF",
      program.string(), std::strerror(errno));
}

}  // namespace

int main(int argc, char** argv) {
  if (const auto command = slimpack::python_command(argc, argv))
    return slimpack::become_python(*command, argc, argv);
  int answer = 0;
  CLI::App app{"SlimPack trains language models on documents of very different lengths.",
               "slimpack"};
  app.require_subcommand(1);
  app.set_version_flag("--version", slimpack::version_text());
  slimpack::add_data_command(app);
  slimpack::add_profile_command(app, [&](const auto&) { become_training_program(argv); });
  slimpack::add_layout_command(app);
  slimpack::add_fit_command(app, answer);
  slimpack::add_plan_command(app);
  slimpack::add_simulate_command(app);
  slimpack::add_compare_command(app);
  slimpack::add_sweep_command(app, [&](const auto&) { become_training_program(argv); });
  slimpack::add_train_command(app, [&](const auto&) { become_training_program(argv); });
  slimpack::add_validate_command(app, [&](const auto&) { become_training_program(argv); });
  slimpack::add_python_commands(app);
  slimpack::add_report_command(app);
  slimpack::add_completion_command(app);
  const int code = slimpack::run_program(app, argc, argv);
  return code == 0 ? answer : code;
}
