// Draws for generators of rapidcheck.
#pragma once

#include <rapidcheck.h>

namespace slimpack::testing {

/// A number of the whole range at every size of rapidcheck, which otherwise begins with the lowest;
/// shrinks towards `from`.
inline rc::Gen<int> any_of(int from, int to) {
  return rc::gen::resize(rc::kNominalSize, rc::gen::inRange(from, to + 1));
}

}  // namespace slimpack::testing
