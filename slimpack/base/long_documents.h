// Kinds of training on documents that are longer than the context.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace slimpack {

enum class LongDocumentsKind : std::uint8_t {
  kSplit,     ///< consecutive sequences of at most the context: every token trains
  kTruncate,  ///< the beginning is a sequence; the rest is dropped
  kDrop,      ///< the whole document is dropped
};

inline constexpr std::array kLongDocumentsKinds{
    LongDocumentsKind::kSplit, LongDocumentsKind::kTruncate, LongDocumentsKind::kDrop};

[[nodiscard]] constexpr std::string_view to_string(LongDocumentsKind kind) {
  return kind == LongDocumentsKind::kSplit      ? "split"
         : kind == LongDocumentsKind::kTruncate ? "truncate"
                                                : "drop";
}

}  // namespace slimpack
