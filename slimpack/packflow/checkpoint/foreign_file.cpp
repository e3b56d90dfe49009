#include "slimpack/packflow/checkpoint/foreign_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdint>
#include <string_view>

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

}  // namespace

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

}  // namespace slimpack
