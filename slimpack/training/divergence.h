// Divergence: a run whose weights no longer lead to a finite loss, gradient or update.
#pragma once

#include <cstdint>
#include <string>

#include "slimpack/base/error.h"
#include "slimpack/packflow/step/engine.h"

namespace slimpack {

/// The run cannot go on from the weights that it has, or has made them unusable.
class Diverged : public RunFailed {
 public:
  Diverged(const std::string& message, bool from_sound_weights)
      : RunFailed(message), from_sound_weights_(from_sound_weights) {}

  /// Whether the step before left sound weights, which a smaller update would have kept so. If
  /// not, every step from these weights fails, whatever the learning rate is.
  [[nodiscard]] bool from_sound_weights() const { return from_sound_weights_; }

 private:
  bool from_sound_weights_;
};

/// Where the weights of a step or an evaluation come from.
struct WeightsOrigin {
  std::string given;          ///< "the weights in 'FOLDER'", for messages
  bool trained_here = false;  ///< whether a step of this or of an earlier start has updated them
};

/// Throws Diverged if the step's update was refused or made weights that are not finite.
/// `learning_rate`: of the step.
void require_sound(const StepResult& result, const WeightsOrigin& origin, double learning_rate);

/// Throws Diverged if an evaluation's loss is not finite.
void require_sound_evaluation(double loss, const WeightsOrigin& origin);

}  // namespace slimpack
