#include "slimpack/packflow/checkpoint/safetensors.h"

#include <ATen/ops/aminmax.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cctype>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "slimpack/base/error.h"
#include "slimpack/base/file.h"
#include "slimpack/base/json_fields.h"
#include "slimpack/base/json_text.h"

namespace slimpack {
namespace {

/// The length of a safetensors header has its zero bytes here, so that no text is one.
constexpr std::size_t kLengthBytes = sizeof(std::uint64_t);
constexpr std::size_t kShown = 24;

struct Kind {
  std::string_view start;
  const char* text;
};
constexpr std::array<Kind, 6> kKinds{
    {{"version https://git-lfs",
      "is a Git LFS pointer in place of the weights; run 'git lfs "
      "install' and 'git lfs pull' in its folder"},
     {"PK\x03\x04",
      "is a file of torch.save (or another zip); load it with transformers and write "
      "it with save_pretrained"},
     {"\x80\x02",
      "is a pickle of torch.save; load it with transformers and write it with "
      "save_pretrained"},
     {"GGUF", "is a GGUF file; give the model's safetensors files"},
     {"\x1f\x8b", "is compressed by gzip; unpack it"},
     {"\x28\xb5\x2f\xfd", "is compressed by zstd; unpack it"}}};

bool is_text(char c) {
  return std::isprint(static_cast<unsigned char>(c)) != 0 ||
         std::isspace(static_cast<unsigned char>(c)) != 0;
}

/// Says which other kind of file has these bytes, and the remedy: "is a Git LFS pointer …; run 'git
/// lfs pull' …". nullopt if it may be a safetensors file.
std::optional<std::string> foreign_kind(std::span<const std::byte> bytes) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  for (const Kind& kind : kKinds)
    if (text.starts_with(kind.start)) return kind.text;
  if (text.size() < kLengthBytes) return std::nullopt;
  if (std::ranges::all_of(text.substr(0, kLengthBytes), is_text)) {
    const std::string_view from =
        text.substr(std::min(text.find_first_not_of(" \t\r\n"), text.size()));
    if (from.starts_with('<')) return "is a web page, not the weights; download the file itself";
    return fmt::format(
        "is a text that begins with \"{}\", not the weights; download the file again",
        from.substr(0, kShown));
  }
  // The smallest header is "{}".
  if (std::ranges::all_of(text.substr(0, kLengthBytes), [](char c) { return c == 0; }))
    return "begins with zeros in place of a header: it was never written to its end; download the "
           "file again";
  return std::nullopt;
}

static_assert(std::endian::native == std::endian::little);

constexpr std::uint64_t kMaxHeader = 100'000'000;  // the format's own limit
constexpr const char* kDownload = "the file is cut off or damaged; download it again";
constexpr std::array<std::pair<const char*, at::ScalarType>, 6> kTypes{{{"F64", at::kDouble},
                                                                        {"F32", at::kFloat},
                                                                        {"F16", at::kHalf},
                                                                        {"BF16", at::kBFloat16},
                                                                        {"I64", at::kLong},
                                                                        {"BOOL", at::kBool}}};

const char* type_name(at::ScalarType type) {
  for (const auto& [name, known] : kTypes)
    if (known == type) return name;
  SLIMPACK_CHECK(false, "tensor type {} has no place in a checkpoint", at::toString(type));
}

at::ScalarType type_of(const std::string& name, const std::string& where) {
  for (const auto& [known, type] : kTypes)
    if (name == known) return type;
  invalid_input(
      "{}: dtype \"{}\" is not supported; allowed are F64, F32, F16, BF16, I64 "
      "and BOOL",
      where, name);
}

struct ShapedBytes {
  std::vector<std::int64_t> shape;
  std::int64_t bytes = 0;
};

ShapedBytes shape_of(const JsonFields& entry, at::ScalarType type) {
  ShapedBytes result;
  auto stride =
      static_cast<std::int64_t>(c10::elementSize(type));  // over an empty axis as over one
  for (const auto& value : entry.array("shape")) {
    const std::int64_t size =
        json_integer(value, entry.origin() + ": shape", 0, std::int64_t{1} << 40);
    result.shape.push_back(size);
    if (__builtin_mul_overflow(stride, std::max<std::int64_t>(size, 1), &stride))
      invalid_input("{}: the shape has too many elements", entry.origin());
  }
  result.bytes = std::ranges::count(result.shape, 0) > 0 ? 0 : stride;
  return result;
}

/// Reads the length of the header, which begins after it.
std::uint64_t header_length(std::span<const std::byte> bytes, const std::string& origin) {
  if (const auto kind = foreign_kind(bytes)) invalid_input("{}: {}", origin, *kind);
  std::uint64_t size = 0;
  if (bytes.size() < sizeof size)
    invalid_input("{}: {} bytes, shorter than its 8-byte header length; {}", origin, bytes.size(),
                  kDownload);
  std::memcpy(&size, bytes.data(), sizeof size);
  if (size > kMaxHeader)
    invalid_input("{}: header length {} exceeds the limit of {}, so it is no safetensors file; {}",
                  origin, size, kMaxHeader, kDownload);
  if (size > bytes.size() - sizeof size)
    invalid_input("{}: header length {} exceeds the file of {} bytes; {}", origin, size,
                  bytes.size(), kDownload);
  return size;
}

/// [begin, end) of the data.
struct Range {
  std::int64_t begin;
  std::int64_t end;
};

Range range_of(const JsonFields& entry, std::int64_t available) {
  const auto& offsets = entry.array("data_offsets");
  if (offsets.size() != 2) invalid_input("{}: data_offsets needs two entries", entry.origin());
  constexpr std::int64_t kMost = std::int64_t{1} << 62;
  const std::int64_t begin = json_integer(offsets[0], entry.origin() + ": begin", 0, kMost);
  const std::int64_t end = json_integer(offsets[1], entry.origin() + ": end", begin, kMost);
  if (end > available)
    invalid_input("{}: its end is byte {} of the data, of which the file has {}; {}",
                  entry.origin(), end, available, kDownload);
  return {begin, end};
}

at::Tensor tensor_at(const std::byte* data, const std::vector<std::int64_t>& shape,
                     at::ScalarType type, const std::shared_ptr<const void>& owner) {
  const bool aligned = reinterpret_cast<std::uintptr_t>(data) % c10::elementSize(type) == 0;
  // libtorch has no tensors of constants.
  auto* const address = const_cast<std::byte*>(data);
  if (aligned)
    return at::from_blob(
        address, shape, [owner](void*) {}, type);
  at::Tensor copy = at::empty(shape, type);
  std::copy_n(data, copy.nbytes(), static_cast<std::byte*>(copy.mutable_data_ptr()));  // may be 0
  return copy;
}

/// Every byte of the data belongs to one tensor.
void require_tiling(const std::map<std::int64_t, std::int64_t>& end_of_begin,
                    std::int64_t available, const std::string& origin) {
  std::int64_t at = 0;
  for (const auto& [begin, end] : end_of_begin) {
    if (begin != at)
      invalid_input("{}: bytes {} to {} belong to no or to two tensors", origin, at, begin);
    at = end;
  }
  if (at != available)
    invalid_input(
        "{}: {} bytes follow the last tensor, so that more was written to it than the "
        "header says; download the file again",
        origin, available - at);
}

}  // namespace

void stream_safetensors(const NamedTensors& tensors, const ByteSink& sink) {
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  std::uint64_t offset = 0;
  for (const auto& [name, tensor] : tensors) {
    const std::uint64_t end = offset + tensor.nbytes();
    header[name] = {{"dtype", type_name(tensor.scalar_type())},
                    {"shape", tensor.sizes().vec()},
                    {"data_offsets", {offset, end}}};
    offset = end;
  }
  header["__metadata__"] = {{"format", "pt"}};
  std::string text = json_text(header);
  text.resize((text.size() + 7) / 8 * 8, ' ');  // data starts at a multiple of 8
  const std::uint64_t size = text.size();
  sink(std::as_bytes(std::span(&size, 1)));
  sink(std::as_bytes(std::span(text)));
  for (const auto& [name, tensor] : tensors) {
    const at::Tensor flat = tensor.contiguous();
    sink({static_cast<const std::byte*>(flat.const_data_ptr()), flat.nbytes()});
  }
}

void write_safetensors(const std::filesystem::path& file, const NamedTensors& tensors) {
  AtomicFile out(file);
  stream_safetensors(tensors, [&](std::span<const std::byte> bytes) { out.write(bytes); });
  out.commit();
}

NamedTensors parse_safetensors(std::span<const std::byte> bytes, std::shared_ptr<const void> owner,
                               const std::string& origin) {
  const std::uint64_t size = header_length(bytes, origin);
  const auto* const text = reinterpret_cast<const char*>(bytes.data()) + sizeof size;
  const nlohmann::json header = parse_json(std::string_view(text, size), origin);
  const std::span<const std::byte> data = bytes.subspan(sizeof size + size);
  const auto available = static_cast<std::int64_t>(data.size());

  NamedTensors tensors;
  static_cast<void>(JsonFields(header, origin));  // an object
  std::map<std::int64_t, std::int64_t> end_of_begin;
  for (const auto& [name, value] : header.items()) {
    if (name == "__metadata__") continue;
    const JsonFields entry(value, origin + ": " + name);
    const auto [begin, end] = range_of(entry, available);
    const auto type = type_of(entry.text("dtype"), entry.origin());
    const auto [shape, size_of_shape] = shape_of(entry, type);
    if (end - begin != size_of_shape)
      invalid_input("{}: data_offsets do not match dtype and shape", entry.origin());
    tensors.emplace(name, tensor_at(data.data() + begin, shape, type, owner));
    if (end > begin && !end_of_begin.emplace(begin, end).second)
      invalid_input("{}: shares its bytes with another tensor", entry.origin());
  }
  require_tiling(end_of_begin, available, origin);
  return tensors;
}

std::optional<double> number_not_finite(const at::Tensor& tensor) {
  if (!tensor.is_floating_point() || tensor.numel() == 0) return std::nullopt;
  const auto [smallest, largest] = at::aminmax(tensor);
  for (const at::Tensor& extreme : {smallest, largest})  // a NaN is both
    if (const auto value = extreme.item<double>(); !std::isfinite(value)) return value;
  return std::nullopt;
}

void require_finite_file(const std::filesystem::path& file) {
  for (const auto& [name, tensor] : read_safetensors(file))
    if (const std::optional<double> value = number_not_finite(tensor))
      invalid_input(
          "'{}': tensor {} holds {}, so these weights cannot be used; take a sound "
          "copy or an earlier checkpoint",
          file.string(), name,
          std::isnan(*value) ? "values that are not numbers" : "infinite values");
}

NamedTensors read_safetensors(const std::filesystem::path& file) {
  const auto mapped = std::make_shared<MappedFile>(file, "checkpoint", "check the path");
  return parse_safetensors(mapped->bytes(), mapped, file.string());
}

}  // namespace slimpack
