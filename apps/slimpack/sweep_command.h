// sweep: how a job's step depends on choices. Both programs have it: slimpack plans the points,
// slimpack-train trains them.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "apps/slimpack/run_file_options.h"
#include "apps/slimpack/step_lengths.h"
#include "slimpack/report/sweep_report.h"
#include "slimpack/spec/run_config.h"

namespace slimpack {

struct SweepArguments : RunFile {
  std::vector<std::string> over;
  StepSource source;
  bool measured = false;
  std::string json;
  std::string csv;
  std::string svg;
};

/// `measure`: the action with --measured.
void add_sweep_command(CLI::App& app, std::function<void(const SweepArguments&)> measure);

/// Throws InvalidInput if one of the files cannot be written, so that no work is in vain.
void require_writable_files(const SweepArguments& arguments);

/// Writes the files, then prints `notes` and the report. `config`: of the first point.
void show_sweep(const SweepArguments& arguments, const RunConfig& config,
                const std::vector<std::string>& notes, const SweepReport& report);

/// The action of sweep --measured, in slimpack-train only.
void measured_sweep(const SweepArguments& arguments);

}  // namespace slimpack
