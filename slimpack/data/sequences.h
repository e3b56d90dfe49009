// Turns documents into sequences of at most the context. Steps are made of sequences. A sequence's
// tokens go to the model with a mask of targets.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "slimpack/base/long_documents.h"
#include "slimpack/base/units.h"

namespace slimpack {

/// By token of a sequence: 1 = a target, which the token before it predicts and the loss counts,
/// 0 = none. The first token is none.
using TargetMask = std::vector<std::uint8_t>;

/// Every token but the first is a target.
[[nodiscard]] TargetMask all_targets(std::size_t tokens);
/// The number of targets.
[[nodiscard]] std::int64_t count_of(const TargetMask& targets);

/// Each field has one entry for each token.
struct SequenceTokens {
  std::vector<std::int64_t> tokens;
  TargetMask targets;
  /// How much the loss counts a target, above 0; other tokens' entries say nothing. Empty = 1 each.
  std::vector<double> weights = {};
};

struct SequenceRule {
  Tokens context{4096};  ///< a sequence has at most this many tokens; 1 or more
  /// kSplit: a longer document becomes consecutive sequences, all but the last of `context` tokens.
  LongDocumentsKind long_documents = LongDocumentsKind::kSplit;
};

/// A token range of a document that trains as one sequence.
struct DocumentSequence {
  std::size_t document = 0;  ///< index in the dataset
  Tokens begin;              ///< tokens of the document before it
  Tokens length;             ///< 1 or more

  bool operator==(const DocumentSequence&) const = default;
};

/// How many sequences a document of `length` tokens becomes; 0 for one that is empty or dropped.
[[nodiscard]] std::int64_t sequence_count(Tokens length, const SequenceRule& rule);

/// Sequence `k` of a document of `length` tokens. REQUIRES: 0 <= k < sequence_count(length, rule).
[[nodiscard]] DocumentSequence sequence_of(std::size_t document, Tokens length, std::int64_t k,
                                           const SequenceRule& rule);

/// The lengths of all sequences of these documents, in order.
[[nodiscard]] std::vector<Tokens> sequence_lengths(std::span<const Tokens> documents,
                                                   const SequenceRule& rule);

/// Throws InvalidInput naming `name`, as "the dataset", if these documents have no sequence.
void require_sequences(std::span<const Tokens> documents, const SequenceRule& rule,
                       std::string_view name);

/// The length of each of these sequences.
[[nodiscard]] std::vector<Tokens> lengths_of(std::span<const DocumentSequence> sequences);

/// How many documents these sequences come from. O(n log n).
[[nodiscard]] std::int64_t document_count(std::span<const DocumentSequence> sequences);

/// The first sequences of these documents, as many as have at most `at_most` tokens together.
[[nodiscard]] std::vector<DocumentSequence> first_sequences(std::span<const Tokens> documents,
                                                            const SequenceRule& rule,
                                                            Tokens at_most);

/// The sequences in batches of at most `at_most` tokens, unless a single sequence has more.
[[nodiscard]] std::vector<std::vector<DocumentSequence>> in_batches(
    std::span<const DocumentSequence> sequences, Tokens at_most);

/// Lengths that evaluations tell apart: below 1,024 tokens, and further ranges by powers of 4.
struct LengthRange {
  Tokens from;
  Tokens below;

  auto operator<=>(const LengthRange&) const = default;
};
[[nodiscard]] LengthRange range_of(Tokens length);

/// The documents that are longer than the context, and how they train.
struct LongDocuments {
  std::int64_t documents = 0;  ///< the number of such documents
  std::int64_t sequences = 0;  ///< the number of their sequences
  Tokens dropped;              ///< their tokens that never train

  bool operator==(const LongDocuments&) const = default;
};
[[nodiscard]] LongDocuments long_documents(std::span<const Tokens> documents,
                                           const SequenceRule& rule);

}  // namespace slimpack
