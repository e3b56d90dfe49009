#include "apps/slimpack/step_lengths.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "slimpack/base/human.h"
#include "slimpack/data/lengths.h"

namespace slimpack {

StepLengths listed_lengths(const std::string& file, Tokens context) {
  SequenceLengths lengths = read_lengths(file);
  std::int64_t cut = 0;
  for (Tokens& length : lengths) {
    if (length > context) ++cut;
    length = std::min(length, context);
  }
  return {std::move(lengths),
          fmt::format("{}, {} cut at {} tokens", file, grouped(cut), grouped(context.count()))};
}

}  // namespace slimpack
