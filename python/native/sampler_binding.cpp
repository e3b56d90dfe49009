// The order in which sequences train, as `slimpack train` draws them.
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>
#include <limits>
#include <nlohmann/json.hpp>
#include <tuple>
#include <vector>

#include "python/native/bindings.h"
#include "python/native/columns.h"
#include "python/native/views.h"
#include "slimpack/base/json_fields.h"
#include "slimpack/data/sampler.h"
#include "slimpack/data/sequences.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace slimpack {
namespace {

/// By sequence: its document, the tokens before it, its length.
using SequenceColumns = std::tuple<View<std::int64_t>, View<std::int64_t>, View<std::int64_t>>;

SequenceColumns columns_of(const std::vector<DocumentSequence>& sequences) {
  std::vector<std::int64_t> documents, begins, lengths;
  for (const DocumentSequence& s : sequences) {
    documents.push_back(static_cast<std::int64_t>(s.document));
    begins.push_back(s.begin.count());
    lengths.push_back(s.length.count());
  }
  return {owning_view<std::int64_t>(std::move(documents)),
          owning_view<std::int64_t>(std::move(begins)),
          owning_view<std::int64_t>(std::move(lengths))};
}

Sampler make_sampler(const Lengths& lengths, std::int64_t context, std::int64_t step_tokens,
                     std::string_view cursor) {
  const nlohmann::json json = parse_json(cursor, "cursor");
  return Sampler(tokens_of(lengths), {{Tokens(context), /*split=*/true}, Tokens(step_tokens)},
                 sampler_cursor_from_json(JsonFields(json, "cursor")));
}

std::vector<SequenceColumns> held_out_batches(const Lengths& lengths, std::int64_t context,
                                              std::int64_t step_tokens) {
  constexpr Tokens kAll(std::numeric_limits<std::int64_t>::max());
  const std::vector<DocumentSequence> sequences =
      first_sequences(tokens_of(lengths), {Tokens(context), /*split=*/true}, kAll);
  std::vector<SequenceColumns> batches;
  for (const auto& batch : in_batches(sequences, Tokens(step_tokens)))
    batches.push_back(columns_of(batch));
  return batches;
}

}  // namespace

void bind_sampler(nb::module_& m) {
  nb::class_<Sampler>(m, "Sampler", "Draws whole sequences, shuffled anew each epoch.")
      .def_static("make", &make_sampler, "lengths"_a, "context"_a, "step_tokens"_a, "cursor"_a,
                  "cursor: JSON text with seed, epoch and position.")
      .def(
          "next_step", [](Sampler& sampler) { return columns_of(sampler.next_step()); },
          "By sequence of the next step: its document, the tokens before it, its length.")
      .def_prop_ro(
          "cursor", [](const Sampler& sampler) { return to_json(sampler.cursor()).dump(); },
          "JSON text: where to go on after the step drawn last.");
  m.def(
      "held_out_batches", &held_out_batches, "lengths"_a, "context"_a, "step_tokens"_a,
      "All sequences of documents, in order, in batches of at most step_tokens unless a single one "
      "has more; by batch as next_step.");
}

}  // namespace slimpack
