#include "slimpack/data/sequences.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "slimpack/base/error.h"

namespace slimpack {

TargetMask all_targets(std::size_t tokens) {
  TargetMask targets(tokens, 1);
  if (tokens > 0) targets.front() = 0;
  return targets;
}

std::int64_t count_of(const TargetMask& targets) {
  return std::accumulate(targets.begin(), targets.end(), std::int64_t{0});
}

std::int64_t sequence_count(Tokens length, const SequenceRule& rule) {
  if (length == Tokens(0)) return 0;
  if (length <= rule.context || rule.long_documents == LongDocumentsKind::kTruncate) return 1;
  if (rule.long_documents == LongDocumentsKind::kDrop) return 0;
  return (length.count() - 1) / rule.context.count() + 1;
}

DocumentSequence sequence_of(std::size_t document, Tokens length, std::int64_t k,
                             const SequenceRule& rule) {
  SLIMPACK_CHECK(k >= 0 && k < sequence_count(length, rule), "sequence {} of document {}", k,
                 document);
  const Tokens begin = rule.context * k;
  return {document, begin, std::min(length - begin, rule.context)};
}

std::vector<Tokens> sequence_lengths(std::span<const Tokens> documents, const SequenceRule& rule) {
  std::vector<Tokens> lengths;
  for (std::size_t d = 0; d < documents.size(); ++d)
    for (std::int64_t k = 0; k < sequence_count(documents[d], rule); ++k)
      lengths.push_back(sequence_of(d, documents[d], k, rule).length);
  return lengths;
}

void require_sequences(std::span<const Tokens> documents, const SequenceRule& rule,
                       std::string_view name) {
  if (std::ranges::any_of(documents, [&](Tokens d) { return sequence_count(d, rule) > 0; })) return;
  if (std::ranges::any_of(documents, [](Tokens d) { return d > Tokens(0); }))
    invalid_input(
        "{} has {} documents; those with tokens are all longer than the context of {} and dropped; "
        "raise the context, or split or truncate them",
        name, documents.size(), rule.context.count());
  invalid_input("{} has {} documents and none with a token; build it from other files", name,
                documents.size());
}

std::vector<Tokens> lengths_of(std::span<const DocumentSequence> sequences) {
  std::vector<Tokens> lengths;
  for (const DocumentSequence& sequence : sequences) lengths.push_back(sequence.length);
  return lengths;
}

std::int64_t document_count(std::span<const DocumentSequence> sequences) {
  std::set<std::size_t> documents;
  for (const DocumentSequence& sequence : sequences) documents.insert(sequence.document);
  return static_cast<std::int64_t>(documents.size());
}

std::vector<DocumentSequence> first_sequences(std::span<const Tokens> documents,
                                              const SequenceRule& rule, Tokens at_most) {
  std::vector<DocumentSequence> sequences;
  Tokens tokens;
  for (std::size_t d = 0; d < documents.size(); ++d)
    for (std::int64_t k = 0; k < sequence_count(documents[d], rule); ++k) {
      const DocumentSequence next = sequence_of(d, documents[d], k, rule);
      if (tokens + next.length > at_most) return sequences;
      sequences.push_back(next);
      tokens += next.length;
    }
  return sequences;
}

std::vector<std::vector<DocumentSequence>> in_batches(std::span<const DocumentSequence> sequences,
                                                      Tokens at_most) {
  std::vector<std::vector<DocumentSequence>> batches;
  Tokens tokens;
  for (const DocumentSequence& sequence : sequences) {
    if (batches.empty() || tokens + sequence.length > at_most) {
      batches.emplace_back();
      tokens = Tokens(0);
    }
    batches.back().push_back(sequence);
    tokens += sequence.length;
  }
  return batches;
}

LengthRange range_of(Tokens length) {
  LengthRange range{Tokens(0), Tokens(1024)};
  while (length >= range.below) range = {range.below, range.below * 4};
  return range;
}

LongDocuments long_documents(std::span<const Tokens> documents, const SequenceRule& rule) {
  LongDocuments result;
  for (const Tokens length : documents) {
    if (length <= rule.context) continue;
    ++result.documents;
    result.sequences += sequence_count(length, rule);
    if (rule.long_documents == LongDocumentsKind::kTruncate)
      result.dropped += length - rule.context;
    if (rule.long_documents == LongDocumentsKind::kDrop) result.dropped += length;
  }
  return result;
}

}  // namespace slimpack
