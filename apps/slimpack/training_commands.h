// The commands that need libtorch. They run in a separate program, slimpack-train, so that all
// other commands start at once and work without libtorch. slimpack parses their options, too: its
// help is then complete, and it finds mistakes before anything heavy is loaded.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <functional>
#include <string>

#include "apps/slimpack/run_file_options.h"
#include "slimpack/spec/run_config.h"

namespace slimpack {

struct TrainArguments : RunFile {
  std::string clock;    ///< "wall" or "virtual" overrides train.clock; empty = train.clock
  bool report = false;  ///< also write report.html
  std::string against;  ///< "packed": compare the last step with fixed packing
  std::string resume;   ///< "auto" or the folder of a checkpoint; empty = from the first step
  std::string log;      ///< overrides output.log; empty = output.log
  std::string init;     ///< folder of a Hugging Face model to start from; empty = random weights
};

struct ProfileArguments : RunFile {
  std::string out;
  std::string json;
};

struct ValidateArguments : RunFile {
  std::string clock;  ///< as TrainArguments
  std::int64_t steps = 3;
  std::int64_t repetitions = 3;
  double max_error = 0;  ///< percent; 0 = any
  std::string json;
};

/// The run file's configuration, with the clock of the command line.
[[nodiscard]] RunConfig configured_run(const RunFile& file, const std::string& clock);

void add_train_command(CLI::App& app, std::function<void(const TrainArguments&)> run);
void add_profile_command(CLI::App& app, std::function<void(const ProfileArguments&)> run);

void add_validate_command(CLI::App& app, std::function<void(const ValidateArguments&)> run);

/// The actions of profile and validate, in slimpack-train only.
void profile(const ProfileArguments& arguments);
void validate_run(const ValidateArguments& arguments);

}  // namespace slimpack
