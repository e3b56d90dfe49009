#include "slimpack/report/step_picture.h"

#include <array>

#include "slimpack/report/rivals.h"
#include "slimpack/report/timeline_picture.h"

namespace slimpack {

std::string step_svg(const PlanFile& file, const PlanLimits& limits) {
  const RatedPlan packed = packed_rival(file, limits);
  const std::array timelines{
      PicturedTimeline{"packed as usual", predict(packed, file.cost).timeline},
      PicturedTimeline{"as planned", predict(file.step, file.cost).timeline}};
  return timelines_svg(timelines);
}

}  // namespace slimpack
