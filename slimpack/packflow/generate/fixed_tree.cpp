#include "slimpack/packflow/generate/fixed_tree.h"

#include "slimpack/base/error.h"

namespace slimpack {

FixedTree::FixedTree(std::int64_t depth, std::int64_t rows, std::int64_t width)
    : depth_(depth), rows_(rows), width_(width) {
  if (depth < 1) invalid_input("draft-depth is {}, it must be 1 or more", depth);
  if (rows < 2)
    invalid_input("draft-rows is {}, it must be 2 (one guess beside the last token) or more", rows);
  if (width < 1) invalid_input("draft-width is {}, it must be 1 or more", width);
}

}  // namespace slimpack
