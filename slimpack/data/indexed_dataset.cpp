#include "slimpack/data/indexed_dataset.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "slimpack/base/checksum.h"
#include "slimpack/base/error.h"
#include "slimpack/data/indexed_format.h"

namespace slimpack {

namespace fs = std::filesystem;
using namespace indexed_format;

namespace {

/// Copies, because fields of the index begin at odd offsets.
template <class T>
T load(std::span<const std::byte> bytes, std::size_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof(T));
  return value;
}

template <class... Args>
[[noreturn]] void damaged(const std::string& name, fmt::format_string<Args...> format,
                          Args&&... args) {
  invalid_input("'{}': {}; the file is damaged or incomplete, build or copy the dataset again",
                name, fmt::format(format, std::forward<Args>(args)...));
}

TokenDtype token_dtype(std::uint8_t code, const std::string& name) {
  switch (code) {
    case 1:
    case 2:
    case 3:
    case 4:
    case 5:
    case 8:
      return static_cast<TokenDtype>(code);
    case 6:
    case 7:
      invalid_input(
          "'{}': dtype code {} is {}; tokens are integers (codes 1 to 5 and 8), build the "
          "dataset from token ids",
          name, code, code == 6 ? "float64" : "float32");
    default:
      damaged(name, "dtype code {} is not known (codes 1 to 8)", code);
  }
}

/// Has no branches and only locals, which bytes cannot alias, so that the compiler vectorises it.
template <class Stored>
TokenExtremes extremes_of(std::span<const std::byte> bytes) {
  Stored smallest = std::numeric_limits<Stored>::max();
  Stored largest = std::numeric_limits<Stored>::min();
  for (std::size_t at = 0; at < bytes.size(); at += sizeof(Stored)) {
    const auto token = load<Stored>(bytes, at);
    smallest = token < smallest ? token : smallest;
    largest = token > largest ? token : largest;
  }
  return {smallest, largest};
}

fs::path with_suffix(fs::path prefix, const char* suffix) {
  return prefix += suffix;
}

}  // namespace

std::size_t bytes_per_token(TokenDtype dtype) {
  switch (dtype) {
    case TokenDtype::kUint8:
    case TokenDtype::kInt8:
      return 1;
    case TokenDtype::kInt16:
    case TokenDtype::kUint16:
      return 2;
    case TokenDtype::kInt32:
      return 4;
    case TokenDtype::kInt64:
      return 8;
  }
  SLIMPACK_CHECK(false, "dtype code {}", static_cast<int>(dtype));
  return 0;
}

fs::path bin_path(const fs::path& prefix) {
  return with_suffix(prefix, ".bin");
}
fs::path idx_path(const fs::path& prefix) {
  return with_suffix(prefix, ".idx");
}

IndexedDataset IndexedDataset::open(const fs::path& prefix) {
  constexpr std::string_view kRemedy =
      "give the common PREFIX of PREFIX.bin and PREFIX.idx, or write them with 'slimpack data "
      "build'";
  MappedFile bin(bin_path(prefix), "dataset", kRemedy);
  MappedFile idx(idx_path(prefix), "dataset index", kRemedy);
  IndexedDataset dataset(std::move(bin), std::move(idx));
  dataset.name_ = idx_path(prefix).string();
  dataset.check_header();
  dataset.check_sequences();
  dataset.check_documents();
  return dataset;
}

void IndexedDataset::check_header() {
  const auto idx = idx_.bytes();
  if (idx.size() < kHeaderBytes)
    damaged(name_, "{} bytes, the header alone has {}", idx.size(), kHeaderBytes);
  if (std::memcmp(idx.data(), kMagic.data(), kMagic.size()) != 0)
    invalid_input(
        "'{}' does not begin with 'MMIDIDX', so it is no Megatron index; convert the data "
        "or build it with 'slimpack data build'",
        name_);
  const auto version = load<std::uint64_t>(idx, kVersionAt);
  if (version != kVersion)
    invalid_input("'{}': version {} is not known; this program reads version {}", name_, version,
                  kVersion);
  dtype_ = token_dtype(load<std::uint8_t>(idx, kDtypeAt), name_);

  // Divides instead of multiplying: a huge count must not overflow into a match.
  const auto sequences = load<std::uint64_t>(idx, kSequencesAt);
  const auto entries = load<std::uint64_t>(idx, kDocumentsAt);
  const std::uint64_t arrays = idx.size() - kHeaderBytes;
  if (sequences > arrays / (kLengthBytes + kOffsetBytes))
    damaged(name_, "sequence count {} does not fit into {} bytes", sequences, idx.size());
  const std::uint64_t rest = arrays - sequences * (kLengthBytes + kOffsetBytes);
  if (entries < 1 || entries > rest / kDocumentBytes)
    damaged(name_,
            "document index count {} must be 1 to {} in a file of {} bytes with {} sequences",
            entries, rest / kDocumentBytes, idx.size(), sequences);
  const std::uint64_t modes = rest - entries * kDocumentBytes;
  if (modes != 0 && modes != sequences)
    damaged(name_, "{} bytes follow {} sequences and {} document indices, expected 0 or {}", modes,
            sequences, entries, sequences);
  sequences_ = sequences;
  documents_ = entries - 1;
}

void IndexedDataset::check_sequences() const {
  const auto bin_bytes = static_cast<std::int64_t>(bin_.bytes().size());
  const auto token_bytes = static_cast<std::int64_t>(bytes_per_token(dtype_));
  std::int64_t end = 0;  // of the sequence before
  for (std::size_t s = 0; s < sequences_; ++s) {
    const std::int64_t length = sequence_length(s);
    const std::int64_t offset = sequence_offset(s);
    if (length < 0) damaged(name_, "sequence {} has length {}", s, length);
    if (offset < end)
      damaged(name_, "sequence {} begins at byte {}, before the end of the one before it at {}", s,
              offset, end);
    if (offset > bin_bytes || length > (bin_bytes - offset) / token_bytes)
      damaged(name_, "sequence {} needs {} tokens of {} bytes from byte {} of a .bin of {} bytes",
              s, length, token_bytes, offset, bin_bytes);
    end = offset + length * token_bytes;
  }
  // Writers of this format end the .bin with the last sequence.
  if (end != bin_bytes)
    invalid_input(
        "'{}' says that its sequences end at byte {}, but the .bin has {} bytes: the two files are "
        "not of the same dataset, or one was written again; build or copy both again",
        name_, end, bin_bytes);
}

void IndexedDataset::check_documents() const {
  const auto sequences = static_cast<std::int64_t>(sequences_);
  if (first_sequence(0) != 0)
    damaged(name_, "document index 0 is {}, must be 0", first_sequence(0));
  for (std::size_t d = 0; d < documents_; ++d) {
    if (first_sequence(d + 1) < first_sequence(d) || first_sequence(d + 1) > sequences)
      damaged(name_, "document index {} is {}, must be {} to {}", d + 1, first_sequence(d + 1),
              first_sequence(d), sequences);
  }
  if (first_sequence(documents_) != sequences)
    damaged(name_, "the last document index is {}, must be the sequence count {}",
            first_sequence(documents_), sequences);
}

std::int64_t IndexedDataset::sequence_length(std::size_t sequence) const {
  return load<std::int32_t>(idx_.bytes(), kHeaderBytes + sequence * kLengthBytes);
}

std::int64_t IndexedDataset::sequence_offset(std::size_t sequence) const {
  return load<std::int64_t>(idx_.bytes(),
                            kHeaderBytes + sequences_ * kLengthBytes + sequence * kOffsetBytes);
}

std::int64_t IndexedDataset::first_sequence(std::size_t document) const {
  return load<std::int64_t>(
      idx_.bytes(),
      kHeaderBytes + sequences_ * (kLengthBytes + kOffsetBytes) + document * kDocumentBytes);
}

template <class Work>
void IndexedDataset::as_stored(const Work& work) const {
  switch (dtype_) {
    case TokenDtype::kUint8:
      return work(std::uint8_t{});
    case TokenDtype::kInt8:
      return work(std::int8_t{});
    case TokenDtype::kInt16:
      return work(std::int16_t{});
    case TokenDtype::kInt32:
      return work(std::int32_t{});
    case TokenDtype::kInt64:
      return work(std::int64_t{});
    case TokenDtype::kUint16:
      return work(std::uint16_t{});
  }
}

template <class Work>
void IndexedDataset::each_sequence(std::size_t document, const Work& work) const {
  SLIMPACK_CHECK(document < documents_, "document {} of {}", document, documents_);
  const auto end = static_cast<std::size_t>(first_sequence(document + 1));
  for (auto s = static_cast<std::size_t>(first_sequence(document)); s < end; ++s) work(s);
}

Tokens IndexedDataset::length(std::size_t document) const {
  std::int64_t length = 0;
  each_sequence(document, [&](std::size_t s) { length += sequence_length(s); });
  return Tokens(length);
}

std::vector<Tokens> IndexedDataset::lengths() const {
  std::vector<Tokens> lengths;
  lengths.reserve(documents_);
  for (std::size_t d = 0; d < documents_; ++d) lengths.push_back(length(d));
  return lengths;
}

std::vector<std::int32_t> IndexedDataset::tokens(std::size_t document, Tokens count) const {
  SLIMPACK_CHECK(count.count() >= 0);
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(count.count()));
  copy(document, 0, std::span(tokens));
  return tokens;
}

void IndexedDataset::copy_tokens(std::size_t document, Tokens begin,
                                 std::span<std::int64_t> out) const {
  SLIMPACK_CHECK(begin.count() >= 0);
  copy(document, static_cast<std::size_t>(begin.count()), out);
}

std::optional<TokenExtremes> IndexedDataset::extremes(std::size_t document) const {
  std::optional<TokenExtremes> found;
  as_stored([&](auto stored) {
    using Stored = decltype(stored);
    each_sequence(document, [&](std::size_t s) {
      const auto length = static_cast<std::size_t>(sequence_length(s));
      if (length == 0) return;
      const auto bytes = bin_.bytes().subspan(static_cast<std::size_t>(sequence_offset(s)),
                                              length * sizeof(Stored));
      const TokenExtremes here = extremes_of<Stored>(bytes);
      if (!found) found = here;
      found->smallest = std::min(found->smallest, here.smallest);
      found->largest = std::max(found->largest, here.largest);
    });
  });
  return found;
}

std::int64_t IndexedDataset::position_of(std::size_t document, std::int64_t token) const {
  std::int64_t position = 0;
  std::optional<std::int64_t> first;
  as_stored([&](auto stored) {
    using Stored = decltype(stored);
    each_sequence(document, [&](std::size_t s) {
      const auto offset = static_cast<std::size_t>(sequence_offset(s));
      const auto length = static_cast<std::size_t>(sequence_length(s));
      for (std::size_t i = 0; i < length && !first; ++i, ++position)
        if (load<Stored>(bin_.bytes(), offset + i * sizeof(Stored)) == token) first = position;
    });
  });
  SLIMPACK_CHECK(first, "document {} has no token {}", document, token);
  return *first;
}

std::string IndexedDataset::index_checksum() const {
  return checksum_of(idx_.bytes());
}

template <class Out>
void IndexedDataset::copy(std::size_t document, std::size_t begin, std::span<Out> out) const {
  SLIMPACK_CHECK(static_cast<std::int64_t>(begin + out.size()) <= length(document).count(),
                 "{} tokens from {} on of a document of {}", out.size(), begin,
                 length(document).count());
  auto s = static_cast<std::size_t>(first_sequence(document));
  std::size_t skipped = begin;  // tokens of sequence s before the copied range
  for (; !out.empty() && std::cmp_greater_equal(skipped, sequence_length(s)); ++s)
    skipped -= static_cast<std::size_t>(sequence_length(s));
  for (std::size_t done = 0; done < out.size(); ++s, skipped = 0) {
    const auto stored = static_cast<std::size_t>(sequence_length(s)) - skipped;
    const auto part = out.subspan(done, std::min(out.size() - done, stored));
    const auto offset =
        static_cast<std::size_t>(sequence_offset(s)) + skipped * bytes_per_token(dtype_);
    as_stored([&](auto like) { convert<decltype(like)>(document, begin + done, offset, part); });
    done += part.size();
  }
}

template <class Stored, class Out>
void IndexedDataset::convert(std::size_t document, std::size_t position, std::size_t offset,
                             std::span<Out> out) const {
  for (std::size_t i = 0; i < out.size(); ++i) {
    const auto token =
        static_cast<std::int64_t>(load<Stored>(bin_.bytes(), offset + i * sizeof(Stored)));
    if (token < 0 || token > std::numeric_limits<std::int32_t>::max())
      invalid_input(
          "'{}': token {} of document {} is {}, allowed are 0 to 2147483647; build the "
          "dataset again",
          name_, position + i, document, token);
    out[i] = static_cast<Out>(token);
  }
}

}  // namespace slimpack
