#include "slimpack/report/page_figures.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "slimpack/data/lengths.h"
#include "slimpack/planner/step_errors.h"

namespace slimpack {
namespace {

using Json = nlohmann::ordered_json;

Json slices_of(const std::vector<MicroPack>& packs) {
  Json out = Json::array();
  for (const MicroPack& pack : packs) {
    Json& slices = out.emplace_back(Json::array());
    for (const Slice& slice : pack.slices)
      slices.push_back({slice.sequence.value(), slice.begin.count(), slice.end.count()});
  }
  return out;
}

}  // namespace

Json largest_errors(const Timeline& predicted, const Timeline& measured, std::size_t most) {
  Json out = Json::array();
  for (const ActionError& action : largest_action_errors(predicted, {&measured, 1}, most)) {
    const auto& [rank, kind, stage, pack] = action.work;
    out.push_back({{"rank", rank},
                   {"kind", static_cast<int>(kind)},
                   {"stage", stage.value()},
                   {"pack", pack.value()},
                   {"predicted_ns", action.predicted.count()},
                   {"measured_ns", action.measured.count()}});
  }
  return out;
}

Json lengths_for_page(const SequenceLengths& lengths) {
  const LengthStatistics statistics = length_statistics(lengths);
  Json out = Json::array();
  for (const LengthBin& bin : statistics.histogram)
    out.push_back({{"low", bin.low.count()},
                   {"high", std::min(bin.high, statistics.max).count()},
                   {"count", bin.count},
                   {"token_share", bin.token_share},
                   {"attention_share", bin.attention_share}});
  return out;
}

Json curve_for_page(const TrainingCurve& curve, std::size_t most) {
  Json out{{"step", Json::array()},
           {"loss", Json::array()},
           {"tokens_per_second", Json::array()},
           {"step_ns", Json::array()},
           {"predicted_ns", Json::array()},
           {"evaluated_step", Json::array()},
           {"evaluation_loss", Json::array()}};
  for (const CurvePoint& point : thinned(curve.steps, most)) {
    out["step"].push_back(point.step);
    out["loss"].push_back(point.loss);
    out["tokens_per_second"].push_back(point.tokens_per_second);
    out["step_ns"].push_back(point.step_time.count());
    out["predicted_ns"].push_back(point.predicted_time.count());
  }
  for (const CurveEvaluation& evaluation : curve.evaluations) {
    out["evaluated_step"].push_back(evaluation.step);
    out["evaluation_loss"].push_back(evaluation.loss);
  }
  return out;
}

Json packs_for_page(const StepPlan& plan) {
  Json out = Json::array();
  for (const ReplicaPlan& replica : plan.replicas)
    out.push_back({{"forward", slices_of(replica.packs.forward)},
                   {"backward", slices_of(replica.packs.backward)}});
  return out;
}

}  // namespace slimpack
