#include "slimpack/packflow/speculate/tree_rule.h"

#include "slimpack/base/error.h"

namespace slimpack {

void TreeSize::require_sound() const {
  const auto require_at_most = [](const char* name, std::int64_t value, std::int64_t most) {
    if (value > most) invalid_input("{} is {}, it must be at most {}", name, value, most);
  };
  if (depth < 1) invalid_input("draft-depth is {}, it must be 1 or more", depth);
  if (rows < 2)
    invalid_input("draft-rows is {}, it must be 2 (one guess beside the last token) or more", rows);
  if (width < 1) invalid_input("draft-width is {}, it must be 1 or more", width);
  require_at_most("draft-depth", depth, kMostDepth);
  require_at_most("draft-rows", rows, kMostRows);
  require_at_most("draft-width", width, kMostWidth);
}

}  // namespace slimpack
