#include "slimpack/data/indexed_dataset_writer.h"

#include <cstring>
#include <limits>
#include <system_error>

#include "slimpack/base/error.h"
#include "slimpack/data/indexed_format.h"

namespace slimpack {

namespace fs = std::filesystem;
using namespace indexed_format;

namespace {

constexpr std::size_t kBufferBytes = 1 << 20;
constexpr std::int64_t kUint16Vocab = 65'500;

template <class T>
void append_field(std::vector<std::byte>& bytes, T value) {
  const auto field = std::as_bytes(std::span(&value, 1));
  bytes.insert(bytes.end(), field.begin(), field.end());
}

std::vector<std::byte> index_bytes(TokenDtype dtype, std::span<const std::int32_t> lengths) {
  const std::size_t count = lengths.size();
  std::vector<std::byte> bytes;
  bytes.reserve(kHeaderBytes + count * (kLengthBytes + kOffsetBytes) +
                (count + 1) * kDocumentBytes);
  for (const char c : kMagic) bytes.push_back(static_cast<std::byte>(c));
  append_field(bytes, kVersion);
  append_field(bytes, static_cast<std::uint8_t>(dtype));
  append_field(bytes, static_cast<std::uint64_t>(count));
  append_field(bytes, static_cast<std::uint64_t>(count + 1));
  for (const std::int32_t length : lengths) append_field(bytes, length);
  std::int64_t offset = 0;
  for (const std::int32_t length : lengths) {
    append_field(bytes, offset);
    offset += static_cast<std::int64_t>(length) * static_cast<std::int64_t>(bytes_per_token(dtype));
  }
  for (std::size_t d = 0; d <= count; ++d) append_field(bytes, static_cast<std::int64_t>(d));
  return bytes;
}

}  // namespace

IndexedDatasetWriter::IndexedDatasetWriter(const fs::path& prefix, std::int64_t vocab_size)
    : vocab_size_(vocab_size),
      dtype_(vocab_size < kUint16Vocab ? TokenDtype::kUint16 : TokenDtype::kInt32),
      bin_(bin_path(prefix)),
      idx_(idx_path(prefix)) {
  SLIMPACK_CHECK(vocab_size >= 1, "vocabulary of {}", vocab_size);
  buffer_.reserve(kBufferBytes);
}

void IndexedDatasetWriter::append(std::span<const std::int32_t> document) {
  if (document.size() > static_cast<std::size_t>(std::numeric_limits<std::int32_t>::max()))
    invalid_input("document {} has {} tokens, the .idx format holds at most 2147483647; split it",
                  documents(), document.size());
  if (dtype_ == TokenDtype::kUint16)
    store<std::uint16_t>(document);
  else
    store<std::int32_t>(document);
  lengths_.push_back(static_cast<std::int32_t>(document.size()));
  tokens_ += Tokens(static_cast<std::int64_t>(document.size()));
}

template <class Stored>
void IndexedDatasetWriter::store(std::span<const std::int32_t> document) {
  for (const std::int32_t token : document) {
    SLIMPACK_CHECK(token >= 0 && token < vocab_size_, "token {} in a vocabulary of {}", token,
                   vocab_size_);
    append_field(buffer_, static_cast<Stored>(token));
    if (buffer_.size() >= kBufferBytes) flush();
  }
}

void IndexedDatasetWriter::flush() {
  bin_.write(buffer_);
  buffer_.clear();
}

void IndexedDatasetWriter::commit() {
  flush();
  idx_.write(index_bytes(dtype_, lengths_));
  // Two names cannot change in one step. The old index is removed first and the new one is named
  // last. A stop in between leaves a dataset that open() refuses, never an index of other tokens.
  std::error_code ignored;
  fs::remove(idx_.target(), ignored);
  bin_.commit();
  try {
    idx_.commit();
  } catch (...) {
    fs::remove(bin_.target(), ignored);
    throw;
  }
}

}  // namespace slimpack
