// The order in which sequences train, as `slimpack train` draws them.
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/tuple.h>
#include <nlohmann/json.hpp>
#include <tuple>

#include "python/native/bindings.h"
#include "python/native/columns.h"
#include "python/native/views.h"
#include "slimpack/base/json_fields.h"
#include "slimpack/data/sampler.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace slimpack {
namespace {

using Int64Column = View<std::int64_t>;

Sampler make_sampler(const Lengths& lengths, std::int64_t context, std::int64_t step_tokens,
                     std::string_view cursor) {
  const nlohmann::json json = parse_json(cursor, "cursor");
  return Sampler(tokens_of(lengths), {{Tokens(context), /*split=*/true}, Tokens(step_tokens)},
                 sampler_cursor_from_json(JsonFields(json, "cursor")));
}

std::tuple<Int64Column, Int64Column, Int64Column> next_step(Sampler& sampler) {
  std::vector<std::int64_t> documents, begins, lengths;
  for (const DocumentSequence& s : sampler.next_step()) {
    documents.push_back(static_cast<std::int64_t>(s.document));
    begins.push_back(s.begin.count());
    lengths.push_back(s.length.count());
  }
  return {owning_view<std::int64_t>(std::move(documents)),
          owning_view<std::int64_t>(std::move(begins)),
          owning_view<std::int64_t>(std::move(lengths))};
}

}  // namespace

void bind_sampler(nb::module_& m) {
  nb::class_<Sampler>(m, "Sampler", "Draws whole sequences, shuffled anew each epoch.")
      .def_static("make", &make_sampler, "lengths"_a, "context"_a, "step_tokens"_a, "cursor"_a,
                  "cursor: JSON text with seed, epoch and position.")
      .def("next_step", &next_step,
           "By sequence of the next step: its document, the tokens before it, its length.")
      .def_prop_ro(
          "cursor", [](const Sampler& sampler) { return to_json(sampler.cursor()).dump(); },
          "JSON text: where to go on after the step drawn last.");
}

}  // namespace slimpack
