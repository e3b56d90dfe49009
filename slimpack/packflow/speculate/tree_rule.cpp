#include "slimpack/packflow/speculate/tree_rule.h"

#include "slimpack/base/error.h"

namespace slimpack {

void TreeSize::require_sound() const {
  if (depth < 1) invalid_input("draft-depth is {}, it must be 1 or more", depth);
  if (depth > kMostDepth)
    invalid_input("draft-depth is {}, it must be at most {}", depth, kMostDepth);
  if (rows < 2)
    invalid_input("draft-rows is {}, it must be 2 (one guess beside the last token) or more", rows);
  if (width < 1) invalid_input("draft-width is {}, it must be 1 or more", width);
}

}  // namespace slimpack
