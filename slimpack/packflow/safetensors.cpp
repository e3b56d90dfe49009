#include "slimpack/packflow/safetensors.h"

#include <ATen/ops/empty.h>

#include <array>
#include <bit>
#include <cstring>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "slimpack/base/error.h"
#include "slimpack/base/file.h"
#include "slimpack/base/json_fields.h"

namespace slimpack {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr std::uint64_t kMaxHeader = 100'000'000;  // the format's own limit
constexpr std::uint64_t kMaxFile = std::uint64_t{1} << 40;
constexpr std::array<std::pair<const char*, at::ScalarType>, 4> kTypes{
    {{"F64", at::kDouble}, {"F32", at::kFloat}, {"BF16", at::kBFloat16}, {"I64", at::kLong}}};

const char* type_name(at::ScalarType type) {
  for (const auto& [name, known] : kTypes)
    if (known == type) return name;
  SLIMPACK_CHECK(false, "tensor type {} has no place in a checkpoint", at::toString(type));
}

at::ScalarType type_of(const std::string& name, const std::string& where) {
  for (const auto& [known, type] : kTypes)
    if (name == known) return type;
  invalid_input("{}: dtype \"{}\" is not supported; allowed are F64, F32, BF16 and I64", where,
                name);
}

struct ShapedBytes {
  std::vector<std::int64_t> shape;
  std::int64_t bytes;
};

ShapedBytes shape_of(const JsonFields& entry, at::ScalarType type) {
  ShapedBytes result{{}, static_cast<std::int64_t>(c10::elementSize(type))};
  for (const auto& value : entry.array("shape")) {
    const std::int64_t size =
        json_integer(value, entry.origin() + ": shape", 0, std::int64_t{1} << 40);
    result.shape.push_back(size);
    if (__builtin_mul_overflow(result.bytes, size, &result.bytes))
      invalid_input("{}: the shape has too many elements", entry.origin());
  }
  return result;
}

}  // namespace

void write_safetensors(const std::filesystem::path& file, const NamedTensors& tensors) {
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
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');  // data starts at a multiple of 8
  const std::uint64_t size = text.size();
  AtomicFile out(file);
  out.write(std::as_bytes(std::span(&size, 1)));
  out.write(text);
  for (const auto& [name, tensor] : tensors) {
    const at::Tensor flat = tensor.contiguous();
    out.write({static_cast<const std::byte*>(flat.const_data_ptr()), flat.nbytes()});
  }
  out.commit();
}

NamedTensors read_safetensors(const std::filesystem::path& file) {
  const std::string content = read_file(file, "checkpoint", kMaxFile);
  const std::string origin = file.string();
  std::uint64_t size = 0;
  if (content.size() < sizeof size)
    invalid_input("{}: shorter than its 8-byte header length", origin);
  std::memcpy(&size, content.data(), sizeof size);
  if (size > kMaxHeader || size > content.size() - sizeof size)
    invalid_input("{}: header length {} exceeds the file or the limit of {}", origin, size,
                  kMaxHeader);
  const nlohmann::json header =
      parse_json(std::string_view(content).substr(sizeof size, size), origin);
  const std::uint64_t data = sizeof size + size;
  const auto available = static_cast<std::int64_t>(content.size() - data);

  NamedTensors tensors;
  static_cast<void>(JsonFields(header, origin));  // an object
  std::map<std::int64_t, std::int64_t> ranges;
  for (const auto& [name, value] : header.items()) {
    if (name == "__metadata__") continue;
    const JsonFields entry(value, origin + ": " + name);
    const auto& offsets = entry.array("data_offsets");
    if (offsets.size() != 2) invalid_input("{}: data_offsets needs two entries", entry.origin());
    const std::int64_t begin = json_integer(offsets[0], entry.origin() + ": begin", 0, available);
    const std::int64_t end = json_integer(offsets[1], entry.origin() + ": end", begin, available);
    const auto type = type_of(entry.text("dtype"), entry.origin());
    const auto [shape, bytes] = shape_of(entry, type);
    if (end - begin != bytes)
      invalid_input("{}: data_offsets do not match dtype and shape", entry.origin());
    at::Tensor tensor = at::empty(shape, type);
    std::memcpy(tensor.mutable_data_ptr(), content.data() + data + begin, tensor.nbytes());
    tensors.emplace(name, std::move(tensor));
    if (end > begin && !ranges.emplace(begin, end).second)
      invalid_input("{}: shares its bytes with another tensor", entry.origin());
  }
  std::int64_t at = 0;
  for (const auto& [begin, end] : ranges) {
    if (begin != at)
      invalid_input("{}: bytes {} to {} belong to no or to two tensors", origin, at, begin);
    at = end;
  }
  if (at != available) invalid_input("{}: {} bytes follow the last tensor", origin, available - at);
  return tensors;
}

}  // namespace slimpack
