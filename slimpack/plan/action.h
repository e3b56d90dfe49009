// Action: one pass of one MicroPack on one stage.
#pragma once

#include <compare>

#include "slimpack/base/units.h"
#include "slimpack/plan/plan.h"

namespace slimpack {

/// The pack of I and W is a backward pack. All ranks run E, H and G together; their stage is the
/// rank's first.
struct Action {
  StageId stage;
  Pass pass = Pass::kForward;
  PackId pack;

  auto operator<=>(const Action&) const = default;
};

}  // namespace slimpack
