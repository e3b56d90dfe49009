#include "slimpack/job/configured_model.h"

#include "slimpack/base/error.h"

namespace slimpack {

void require_positions(const RunConfig& config, const Decoder& shape) {
  if (config.data.context > shape.max_positions)
    invalid_input(
        "data.context is {} tokens, {} allows max_position_embeddings = {}; lower data.context, or "
        "raise that if the model is to have longer documents",
        config.data.context.count(), config.model.config.string(), shape.max_positions.count());
}

Decoder trained_model(const RunConfig& config) {
  Decoder shape = read_decoder(config.model.config);
  require_positions(config, shape);
  if (config.parallel.zero != 1)
    invalid_input(
        "parallel.zero is {}, but this version trains with 1 and only plans the others; use 1",
        config.parallel.zero);
  return shape;
}

PlannableModel planned_model(const RunConfig& config) {
  PlannableModel model = read_plannable_model(config.model.config);
  require_positions(config, model.shape);
  return model;
}

PlannableModel planned_model(const RunConfig& config, std::string_view config_json) {
  PlannableModel model = plannable_model_from_json(config_json, config.model.config.string());
  require_positions(config, model.shape);
  return model;
}

Decoder measured_shape(const RunConfig& config, const PlannableModel& model) {
  if (model.shape.config.empty()) return model.shape;
  invalid_input(
      "{}: this version has no such layers to measure; fit, plan and compare tell its times from "
      "[hardware]",
      config.model.config.string());
}

}  // namespace slimpack
