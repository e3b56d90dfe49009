#include "slimpack/packflow/step/rank_result.h"

#include <cstring>
#include <span>
#include <type_traits>

#include "slimpack/base/error.h"
#include "slimpack/packflow/device/tensor.h"

namespace slimpack {
namespace {

/// Gathers records of one type. Members run the same program, so records are bytes.
template <class Record>
std::vector<std::vector<Record>> gathered(std::span<const Record> own, Collective& group) {
  static_assert(std::is_trivially_copyable_v<Record>);
  std::vector<std::vector<Record>> all;
  for (const at::Tensor& part_B : group.gathering().gather(byte_tensor(std::as_bytes(own)))) {
    SLIMPACK_CHECK(part_B.numel() % static_cast<std::int64_t>(sizeof(Record)) == 0);
    auto& records = all.emplace_back(static_cast<std::size_t>(part_B.numel()) / sizeof(Record));
    std::memcpy(records.data(), part_B.const_data_ptr(), part_B.nbytes());
  }
  return all;
}

}  // namespace

Timeline gathered_timeline(const RankResult& own, Collective& group) {
  Timeline timeline;
  for (const auto& spans : gathered(std::span(own.spans), group))
    timeline.spans.insert(timeline.spans.end(), spans.begin(), spans.end());
  for (const auto& memory : gathered(std::span(own.memory), group))
    timeline.memory.insert(timeline.memory.end(), memory.begin(), memory.end());
  for (const auto& peak : gathered(std::span(&own.peak_activation, 1), group))
    timeline.peak_activation.push_back(peak.front());
  if (group.index() == 0) timeline.ranks = group.size();
  return timeline;
}

}  // namespace slimpack
