#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/string.h>
#include <nlohmann/json.hpp>

#include <fmt/format.h>

#include "python/native/bindings.h"
#include "python/native/columns.h"
#include "python/native/views.h"
#include "slimpack/base/error.h"
#include "slimpack/base/json_text.h"
#include "slimpack/data/documents.h"
#include "slimpack/data/lengths.h"
#include "slimpack/data/sequences.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace slimpack {
namespace {

/// Label of a token that is no target, as torch's losses have it.
constexpr std::int64_t kIgnored = -100;

std::size_t require_document(const Documents& documents, std::int64_t document) {
  const std::size_t count = documents.dataset().documents();
  if (document < 0 || document >= static_cast<std::int64_t>(count))
    throw nb::index_error(fmt::format("document {} of {}", document, count).c_str());
  return static_cast<std::size_t>(document);
}

View<std::int32_t> document_tokens(const Documents& documents, std::int64_t document) {
  const IndexedDataset& dataset = documents.dataset();
  const std::size_t d = require_document(documents, document);
  return owning_view<std::int32_t>(dataset.tokens(d, dataset.length(d)));
}

/// A slimpack.LabelledTokens.
nb::object labelled_tokens(const Documents& documents, std::int64_t document, std::int64_t begin,
                           std::int64_t end) {
  const std::size_t d = require_document(documents, document);
  const std::int64_t length = documents.dataset().length(d).count();
  if (begin < 0 || begin > end || end > length)
    throw nb::index_error(
        fmt::format("tokens {} to {} of document {} of {}", begin, end, document, length).c_str());
  SequenceTokens read = documents.read({d, Tokens(begin), Tokens(end - begin)});
  std::vector<std::int64_t> labels = read.tokens;
  for (std::size_t i = 0; i < labels.size(); ++i)
    if (read.targets[i] == 0) labels[i] = kIgnored;
  return nb::module_::import_("slimpack.labelled")
      .attr("LabelledTokens")(owning_view<std::int64_t>(std::move(read.tokens)),
                              owning_view<std::int64_t>(std::move(labels)));
}

}  // namespace

void bind_data(nb::module_& m) {
  m.def(
      "read_lengths",
      [](const std::filesystem::path& file) {
        return owning_view<std::int64_t>(slimpack::read_lengths(file));
      },
      "file"_a, "Reads a length list: one integer a line; # starts a comment.");
  m.def(
      "length_statistics",
      [](const Lengths& lengths) {
        return json_text(to_json(length_statistics(tokens_of(lengths))));
      },
      "lengths"_a, "Figures of a length list as JSON text.");
  m.def(
      "split_documents",
      [](const Lengths& documents, std::int64_t context) {
        if (context < 1) invalid_input("context is {} tokens, must be 1 or more", context);
        return owning_view<std::int64_t>(sequence_lengths(tokens_of(documents), {Tokens(context)}));
      },
      "lengths"_a, "context"_a, "Lengths of consecutive sequences of at most context tokens.");

  nb::class_<Documents>(m, "IndexedDataset", "A Megatron dataset: PREFIX.bin and PREFIX.idx.")
      .def_static("open", &Documents::open, "prefix"_a)
      .def("__len__", [](const Documents& documents) { return documents.dataset().documents(); })
      .def("__getitem__", &document_tokens, "document"_a, "The tokens of a document.")
      .def("read", &labelled_tokens, "document"_a, "begin"_a, "end"_a,
           nb::sig("def read(self, document: int, begin: int, end: int) -> "
                   "slimpack.labelled.LabelledTokens"),
           "Tokens begin to end of a document that train as one sequence, with their labels.")
      .def(
          "lengths",
          [](const Documents& documents) {
            return owning_view<std::int64_t>(documents.dataset().lengths());
          },
          "Tokens of every document, in order.")
      .def(
          "target_share",
          [](const Documents& documents) {
            const TargetStatistics found = target_statistics(documents);
            return found.behind_others == 0 ? 1.0
                                            : static_cast<double>(found.targets) /
                                                  static_cast<double>(found.behind_others);
          },
          "Share of the tokens behind another one that are targets: 1 without a mask, which is "
          "read "
          "whole.");
}

}  // namespace slimpack
