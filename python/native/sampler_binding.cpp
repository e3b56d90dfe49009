// The order in which sequences train, as `slimpack train` draws them.
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <fmt/ranges.h>

#include <limits>
#include <nlohmann/json.hpp>
#include <tuple>
#include <vector>

#include "python/native/bindings.h"
#include "python/native/columns.h"
#include "python/native/views.h"
#include "slimpack/base/error.h"
#include "slimpack/base/json_fields.h"
#include "slimpack/base/json_text.h"
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

SequenceRule rule_of(std::int64_t context, std::string_view long_documents) {
  for (const LongDocumentsKind kind : kLongDocumentsKinds)
    if (to_string(kind) == long_documents) return {Tokens(context), kind};
  std::vector<std::string_view> known;
  for (const LongDocumentsKind kind : kLongDocumentsKinds) known.push_back(to_string(kind));
  invalid_input("long_documents is \"{}\", must be one of {}", long_documents,
                fmt::join(known, ", "));
}

/// Messages name its parts.
Mixture make_mixture(const std::vector<Lengths>& lengths, std::vector<double> weights,
                     std::vector<double> epochs) {
  if (lengths.size() == 1 && weights.empty() && epochs.empty())
    return mixture_of_one(tokens_of(lengths.front()));
  Mixture mixture{{}, std::move(weights), std::move(epochs)};
  for (std::size_t i = 0; i < lengths.size(); ++i)
    mixture.sources.push_back({fmt::format("lengths[{}]", i), tokens_of(lengths[i])});
  return mixture;
}

Sampler make_sampler(const std::vector<Lengths>& lengths, std::int64_t context,
                     std::int64_t step_tokens, std::string_view long_documents,
                     std::vector<double> weights, std::vector<double> epochs,
                     std::string_view cursor) {
  const nlohmann::json json = parse_json(cursor, "cursor");
  return Sampler(make_mixture(lengths, std::move(weights), std::move(epochs)),
                 {rule_of(context, long_documents), Tokens(step_tokens)},
                 sampler_cursor_from_json(JsonFields(json, "cursor")));
}

std::vector<SequenceColumns> held_out_batches(const Lengths& lengths, std::int64_t context,
                                              std::int64_t step_tokens,
                                              std::string_view long_documents) {
  constexpr Tokens kAll(std::numeric_limits<std::int64_t>::max());
  const std::vector<DocumentSequence> sequences =
      first_sequences(tokens_of(lengths), rule_of(context, long_documents), kAll);
  std::vector<SequenceColumns> batches;
  for (const auto& batch : in_batches(sequences, Tokens(step_tokens)))
    batches.push_back(columns_of(batch));
  return batches;
}

}  // namespace

void bind_sampler(nb::module_& m) {
  nb::class_<Sampler>(m, "Sampler", "Draws whole sequences, shuffled anew each epoch.")
      .def_static("make", &make_sampler, "lengths"_a, "context"_a, "step_tokens"_a,
                  "long_documents"_a, "weights"_a, "epochs"_a, "cursor"_a,
                  "lengths: of the documents of each dataset. weights, epochs: of each dataset, or "
                  "empty. cursor: JSON text with seed, and epoch and position of each dataset.")
      .def(
          "next_step", [](Sampler& sampler) { return columns_of(sampler.next_step()); },
          "By sequence of the next step: its document, the tokens before it, its length.")
      .def_prop_ro(
          "cursor", [](const Sampler& sampler) { return json_text(to_json(sampler.cursor())); },
          "JSON text: where to go on after the step drawn last.");
  m.def(
      "held_out_batches", &held_out_batches, "lengths"_a, "context"_a, "step_tokens"_a,
      "long_documents"_a,
      "All sequences of documents, in order, in batches of at most step_tokens unless a single one "
      "has more; by batch as next_step.");
}

}  // namespace slimpack
