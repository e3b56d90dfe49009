#include <nanobind/stl/optional.h>
#include <nanobind/stl/vector.h>

#include <optional>
#include <vector>

#include "python/native/bindings.h"
#include "python/native/columns.h"
#include "slimpack/base/error.h"
#include "slimpack/solver/micro_batches.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace slimpack {
namespace {

using ByRank = std::vector<std::vector<std::vector<std::int32_t>>>;

std::optional<ByRank> micro_batches(const Numbers<double>& work, const Lengths& tokens,
                                    std::int32_t ranks, std::int32_t per_rank, std::int64_t cap) {
  if (work.size() != tokens.size())
    invalid_input("{} costs and {} lengths; give one of each for every sequence", work.size(),
                  tokens.size());
  const nb::gil_scoped_release unlocked;
  auto balanced = balanced_micro_batches({work.data(), work.size()}, tokens_of(tokens),
                                         {ranks, per_rank, Tokens(cap)});
  if (!balanced) return std::nullopt;
  return std::move(balanced->of_rank);
}

}  // namespace

void bind_micro_batches(nb::module_& m) {
  m.def("micro_batches", &micro_batches, "work"_a, "tokens"_a, "ranks"_a, "per_rank"_a, "cap"_a,
        "[rank][micro-batch]: indices of its sequences; None where they find no room.");
}

}  // namespace slimpack
