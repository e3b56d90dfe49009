#include "apps/slimpack/training_commands.h"
#include "slimpack/training/console.h"

namespace slimpack {

void train(const TrainArguments& arguments) {
  TrainRequest request{read_run_config(arguments.config, arguments.overrides), arguments.resume,
                       arguments.init, !arguments.against.empty()};
  if (!arguments.clock.empty())
    request.config.train.clock =
        arguments.clock == "virtual" ? ClockKind::kVirtual : ClockKind::kWall;
  train_at_console(request);
}

}  // namespace slimpack
