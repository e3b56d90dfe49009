// Megatron's indexed datasets: an index and the tokens that it points into, also as a mask.
#include "slimpack/data/indexed_dataset.h"

#include "slimpack/data/documents.h"
#include "slimpack/data/sampler.h"
#include "tests/fuzz/fuzz_input.h"
#include "tests/support/temp_folder.h"

using namespace slimpack;

namespace {

/// Both ways of reading a document give the same tokens.
void read_document(const IndexedDataset& dataset, std::size_t document) {
  const Tokens length = dataset.length(document);
  const auto tokens = fuzz::accepted([&] { return dataset.tokens(document, length); });
  if (!tokens) return;
  std::vector<std::int64_t> wide(tokens->size());
  dataset.copy_tokens(document, Tokens(0), wide);
  fuzz::require(std::ranges::equal(*tokens, wide), "tokens are the same in both widths");
}

/// A dataset of bytes is a mask of itself, as far as it has no other bytes than 0 and 1.
void read_mask(const std::filesystem::path& prefix, std::int64_t tokens) {
  const auto documents = fuzz::accepted([&] { return Documents::open(prefix); });
  if (!documents) return;
  const auto found = fuzz::accepted([&] { return target_statistics(*documents); });
  if (found) fuzz::require(found->targets <= tokens, "there are no more targets than tokens");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const TempFolder folder;
  const std::filesystem::path prefix = folder / "corpus";
  const auto [index, tokens] = fuzz::two_files(data, size);
  put_file(idx_path(prefix), index);
  put_file(bin_path(prefix), tokens);
  put_file(idx_path(mask_prefix(prefix)), index);
  put_file(bin_path(mask_prefix(prefix)), tokens);
  const auto dataset = fuzz::accepted([&] { return IndexedDataset::open(prefix); });
  if (!dataset) return 0;
  const std::vector<Tokens> lengths = dataset->lengths();
  std::size_t bytes = 0;
  for (std::size_t d = 0; d < lengths.size(); ++d) {
    bytes += static_cast<std::size_t>(lengths[d].count()) * bytes_per_token(dataset->dtype());
    read_document(*dataset, d);
  }
  fuzz::require(bytes <= tokens.size(), "documents hold no more tokens than there are");
  if (dataset->dtype() == TokenDtype::kUint8) read_mask(prefix, static_cast<std::int64_t>(bytes));
  (void)fuzz::accepted([&] {
    return Sampler(mixture_of_one(lengths), {.sequences = {Tokens(16)}, .step_tokens = Tokens(64)},
                   {})
        .next_step();
  });
  return 0;
}
