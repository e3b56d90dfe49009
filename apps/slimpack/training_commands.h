// The commands that need libtorch. They run in a separate program, slimpack-train, so that all
// other commands start at once and work without libtorch. slimpack parses their options, too: its
// help is then complete, and it finds mistakes before anything heavy is loaded.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>

#include "apps/slimpack/run_file_options.h"

namespace slimpack {

struct TrainArguments : RunFile {
  std::string clock;    ///< "wall" or "virtual" overrides train.clock; empty = train.clock
  bool report = false;  ///< also write report.html
  std::string against;  ///< "packed": compare the last step with fixed packing
  std::string resume;   ///< "auto" or the folder of a checkpoint; empty = from the first step
  std::string init;     ///< folder of a Hugging Face model to start from; empty = random weights
};

struct ProfileArguments : RunFile {
  std::string out;
  std::string json;
};

void add_train_command(CLI::App& app, std::function<void(const TrainArguments&)> run);
void add_profile_command(CLI::App& app, std::function<void(const ProfileArguments&)> run);

/// The action of profile, in slimpack-train only.
void profile(const ProfileArguments& arguments);

}  // namespace slimpack
