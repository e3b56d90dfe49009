#include "slimpack/packflow/step/step_record.h"

#include <algorithm>
#include <cstddef>
#include <map>
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

WaitingBytes::WaitingBytes(std::span<const WaitedInput> inputs) {
  std::map<Nanos, Bytes> changes;
  for (const WaitedInput& input : inputs) {
    changes[input.put] += input.bytes;
    changes[input.taken] -= input.bytes;
  }
  Bytes level;
  for (const auto& [time, change] : changes) levels_.emplace_back(time, level += change);
}

std::vector<WaitingBytes::Level>::const_iterator WaitingBytes::after(Nanos time) const {
  return std::ranges::upper_bound(levels_, time, {}, &Level::first);
}

Bytes WaitingBytes::at(Nanos time) const {
  const auto next = after(time);
  return next == levels_.begin() ? Bytes(0) : std::prev(next)->second;
}

Bytes WaitingBytes::most(Nanos begin, Nanos end) const {
  Bytes most = at(begin);
  for (auto level = after(begin); level != levels_.end() && level->first < end; ++level)
    most = std::max(most, level->second);
  return most;
}

// In virtual time inputs wait beside the peak of the action that runs meanwhile. A device's peak is
// of all ranks of the process, so none of them may reset it.
StepRecord::StepRecord(std::int32_t rank, StageId first_stage, const RankClock& clock,
                       RankMemory memory, Bytes resident, std::size_t spans)
    : rank_(rank),
      first_stage_(first_stage),
      clock_(clock),
      memory_(memory),
      resident_(resident),
      by_action_(clock.is_virtual() && clock.device().is_cpu()) {
  spans_.reserve(spans);
}

void StepRecord::begin_action() {
  action_began_ = clock_.now();
  if (by_action_) memory_.reset_peak();
}

void StepRecord::end_action() {
  if (!actions_.empty()) actions_.back().end.mark.await();
  actions_.push_back(
      {action_began_, clock_.moment(), memory_.live() - resident_, memory_.peak() - resident_});
}

void StepRecord::end_actions() {
  last_peak_ = memory_.peak() - resident_;
}

void StepRecord::read(RankResult& result, std::span<const WaitedInput> inputs) const {
  for (const TimedSpan& span : spans_)
    result.spans.push_back({rank_, span.kind, span.pack, span.stage, clock_.time_of(span.begin),
                            clock_.time_of(span.end)});
  const WaitingBytes waiting(inputs);
  result.peak_activation = last_peak_;
  for (const TimedMemory& action : actions_) {
    const Nanos end = clock_.time_of(action.end);
    result.memory.push_back({rank_, end, action.live + waiting.at(end)});
    result.peak_activation =
        std::max(result.peak_activation, action.peak + waiting.most(action.begin, end));
  }
}

}  // namespace slimpack
