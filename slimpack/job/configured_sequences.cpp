#include "slimpack/job/configured_sequences.h"

#include <fmt/format.h>

#include <numeric>

#include "slimpack/base/human.h"

namespace slimpack {

SequenceRule configured_sequences(const DataConfig& data) {
  return {data.context, data.long_documents == LongDocumentsKind::kSplit};
}

std::string long_documents_text(std::span<const Tokens> documents, const SequenceRule& rule) {
  const LongDocuments found = long_documents(documents, rule);
  if (found.documents == 0)
    return fmt::format("no document is longer than the context of {}",
                       grouped(rule.context.count()));
  const std::string longer =
      fmt::format("{} of {} longer than the context", grouped(found.documents),
                  counted(static_cast<std::int64_t>(documents.size()), "document"));
  if (rule.split)
    return fmt::format("{}, split into {}: no token is dropped", longer,
                       counted(found.sequences, "sequence"));
  const Tokens all = std::accumulate(documents.begin(), documents.end(), Tokens(0));
  const auto dropped = static_cast<double>(found.dropped.count());
  return fmt::format("{}, truncated: {} tokens dropped, {}", longer, human_count(dropped),
                     human_share(dropped / static_cast<double>(all.count())));
}

}  // namespace slimpack
