#include "slimpack/packflow/step/rank_result.h"

#include <algorithm>
#include <cstddef>
#include <span>
#include <type_traits>

#include "slimpack/base/error.h"
#include "slimpack/packflow/device/tensor.h"

namespace slimpack {
namespace {

/// The record of a step's end that every member sends to all others.
struct RankEnd {
  Bytes peak_activation;
  UpdateOutcome update;
};

/// The records of a member. Members run the same program, so records are bytes.
template <class Record>
std::vector<Record> records_of(const at::Tensor& bytes_B) {
  static_assert(std::is_trivially_copyable_v<Record>);
  SLIMPACK_CHECK(bytes_B.numel() % static_cast<std::int64_t>(sizeof(Record)) == 0);
  std::vector<Record> records(static_cast<std::size_t>(bytes_B.numel()) / sizeof(Record));
  std::copy_n(static_cast<const std::byte*>(bytes_B.const_data_ptr()), bytes_B.nbytes(),
              std::as_writable_bytes(std::span(records)).begin());
  return records;
}

/// Appends the records of all members to `all` at the first of them.
template <class Record>
void gather_into(std::vector<Record>& all, std::span<const Record> own, Collective& group) {
  for (const at::Tensor& bytes_B : group.gathering().gather(byte_tensor(std::as_bytes(own)))) {
    const std::vector<Record> records = records_of<Record>(bytes_B);
    all.insert(all.end(), records.begin(), records.end());
  }
}

}  // namespace

AllRanks gathered(const RankResult& own, Collective& group) {
  AllRanks all{{}, own.update};
  gather_into(all.timeline.spans, std::span<const Span>(own.spans), group);
  gather_into(all.timeline.memory, std::span<const MemorySample>(own.memory), group);
  const RankEnd own_end{own.peak_activation, own.update};
  const bool first = group.index() == 0;
  for (const at::Tensor& bytes_B :
       group.gathering().all_gather(byte_tensor(std::as_bytes(std::span(&own_end, 1))))) {
    const RankEnd end = records_of<RankEnd>(bytes_B).front();
    if (end.update == UpdateOutcome::kNotFinite) all.update = end.update;
    if (first) all.timeline.peak_activation.push_back(end.peak_activation);
  }
  if (first) all.timeline.ranks = group.size();
  return all;
}

}  // namespace slimpack
