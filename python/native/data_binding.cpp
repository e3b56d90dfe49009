#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/string.h>
#include <nlohmann/json.hpp>

#include <fmt/format.h>

#include "python/native/bindings.h"
#include "python/native/columns.h"
#include "python/native/views.h"
#include "slimpack/base/error.h"
#include "slimpack/data/indexed_dataset.h"
#include "slimpack/data/lengths.h"
#include "slimpack/data/sequences.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace slimpack {
namespace {

void require_document(const IndexedDataset& dataset, std::int64_t document) {
  if (document < 0 || document >= static_cast<std::int64_t>(dataset.documents()))
    throw nb::index_error(fmt::format("document {} of {}", document, dataset.documents()).c_str());
}

View<std::int32_t> document_tokens(const IndexedDataset& dataset, std::int64_t document) {
  require_document(dataset, document);
  const auto d = static_cast<std::size_t>(document);
  return owning_view<std::int32_t>(dataset.tokens(d, dataset.length(d)));
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
      [](const Lengths& lengths) { return to_json(length_statistics(tokens_of(lengths))).dump(); },
      "lengths"_a, "Figures of a length list as JSON text.");
  m.def(
      "split_documents",
      [](const Lengths& documents, std::int64_t context) {
        if (context < 1) invalid_input("context is {} tokens, must be 1 or more", context);
        return owning_view<std::int64_t>(
            sequence_lengths(tokens_of(documents), {Tokens(context), /*split=*/true}));
      },
      "lengths"_a, "context"_a, "Lengths of consecutive sequences of at most context tokens.");

  nb::class_<IndexedDataset>(m, "IndexedDataset", "A Megatron dataset: PREFIX.bin and PREFIX.idx.")
      .def_static("open", &IndexedDataset::open, "prefix"_a)
      .def("__len__", &IndexedDataset::documents)
      .def("__getitem__", &document_tokens, "document"_a, "The tokens of a document.")
      .def(
          "lengths",
          [](const IndexedDataset& dataset) {
            return owning_view<std::int64_t>(dataset.lengths());
          },
          "Tokens of every document, in order.");
}

}  // namespace slimpack
