#include "slimpack/planner/unit_tasks.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <utility>

#include "slimpack/schedule/spread_vocabulary.h"

namespace slimpack {
namespace {

/// The packs of a replica that groups of one size run.
PackPlan packs_of_size(const PackPlan& packs, std::int32_t replicas) {
  PackPlan out;
  for (const Pass pass : kWholePasses)
    for (const MicroPack& pack : packs.of(pass))
      if (pack.replicas == replicas) out.of(pass).push_back(pack);
  return out;
}

template <class Value>
void append(std::vector<Value>& to, const std::vector<Value>& more) {
  to.insert(to.end(), more.begin(), more.end());
}

/// Stage by stage.
template <class Value>
void append(std::vector<std::vector<Value>>& to, const std::vector<std::vector<Value>>& more) {
  to.resize(std::max(to.size(), more.size()));
  for (std::size_t s = 0; s < more.size(); ++s) append(to[s], more[s]);
}

void append_packs(TaskTimes& to, const TaskTimes& more) {
  append(to.forward, more.forward);
  append(to.backward, more.backward);
  append(to.input_gradient, more.input_gradient);
  append(to.weight_gradient, more.weight_gradient);
  for (std::size_t j = 0; j < to.joint.size(); ++j) append(to.joint[j], more.joint[j]);
  append(to.forward_transfer, more.forward_transfer);
  append(to.backward_transfer, more.backward_transfer);
  to.reduce = more.reduce;
  to.reduce_after_weights = more.reduce_after_weights;
  to.step_end = more.step_end;
}

void append_packs(TaskBytes& to, const TaskBytes& more) {
  append(to.rows, more.rows);
  append(to.forward_transient, more.forward_transient);
  append(to.backward_transient, more.backward_transient);
  append(to.weight_operands, more.weight_operands);
  append(to.input_transient, more.input_transient);
  append(to.weight_transient, more.weight_transient);
  for (std::size_t j = 0; j < to.joint_transient.size(); ++j)
    append(to.joint_transient[j], more.joint_transient[j]);
  append(to.forward_input, more.forward_input);
  append(to.backward_input, more.backward_input);
}

/// The stores of a segment's sequences, in the ids of one replica, to those of another.
void put_stores(std::vector<std::vector<Bytes>>& to, const std::vector<std::vector<Bytes>>& from,
                const Segment& to_ids, const Segment& from_ids) {
  for (std::size_t s = 0; s < from.size(); ++s)
    for (std::size_t i = 0; i < to_ids.sequences.size(); ++i)
      to[s][to_ids.sequences[i].index()] = from[s][from_ids.sequences[i].index()];
}

/// Costs that the replicas of each group share. The first replica that asks makes them.
template <class Costed>
class ByGroup {
 public:
  /// The part of a replica that a group of this size shares.
  template <class Make>
  const Costed& of(const ReplicaShare& share, std::int32_t replicas, const Make& make) {
    const auto group = std::pair(share.replica.value() / replicas, replicas);
    const auto [at, first] = parts_.try_emplace(group);
    if (first) at->second = make();
    return at->second;
  }

 private:
  std::map<std::pair<std::int32_t, std::int32_t>, Costed> parts_;
};

/// Bytes in the ids of the replica that made them.
struct SegmentBytes {
  TaskBytes bytes;
  const Segment* segment = nullptr;
};

}  // namespace

std::vector<TaskTimes> unit_times(const StepProblem& problem, const Unit& unit,
                                  const std::vector<PackPlan>& packs) {
  const StageTable& table = problem.table;
  const auto direct = [&](const PackPlan& of, std::size_t i) {
    return table.times(of, unit.replicas[i].replica);
  };
  std::vector<TaskTimes> out;
  out.reserve(packs.size());
  ByGroup<TaskTimes> common;
  for (std::size_t i = 0; i < packs.size(); ++i) {
    // Replicas of unlike speeds have nothing in common.
    if (packs.size() == 1 || !table.replication().speed.empty() || packs[i].forward.empty()) {
      out.push_back(direct(packs[i], i));
      continue;
    }
    TaskTimes& times = out.emplace_back();
    for (const Segment& segment : unit.replicas[i].segments) {
      if (segment.sequences.empty()) continue;
      append_packs(times, common.of(unit.replicas[i], segment.replicas, [&] {
        return direct(packs_of_size(packs[i], segment.replicas), i);
      }));
    }
  }
  if (table.layout().spread_vocabulary)
    for (TaskTimes& times : out) {
      fold_vocabulary(times);
      times.joint = {};  // else bounds would count them once more
    }
  return out;
}

void add_unit_bytes(const StepProblem& problem, const Unit& unit,
                    std::vector<ReplicaPacks>& replicas) {
  const StageTable& table = problem.table;
  ByGroup<SegmentBytes> common;
  for (std::size_t i = 0; i < replicas.size(); ++i) {
    const ReplicaShare& share = unit.replicas[i];
    TaskBytes& bytes = replicas[i].bytes;
    if (replicas.size() == 1 || replicas[i].packs.forward.empty()) {
      bytes = table.bytes(replicas[i].packs, share.lengths);
    } else {
      bytes.kv.assign(static_cast<std::size_t>(table.layout().stages()),
                      std::vector<Bytes>(share.lengths.size()));
      bytes.dkv = bytes.kv;
      for (const Segment& segment : share.segments) {
        if (segment.sequences.empty()) continue;
        const SegmentBytes& part = common.of(share, segment.replicas, [&] {
          const PackPlan packs = packs_of_size(replicas[i].packs, segment.replicas);
          return SegmentBytes{table.bytes(packs, share.lengths), &segment};
        });
        append_packs(bytes, part.bytes);
        put_stores(bytes.kv, part.bytes.kv, segment, *part.segment);
        put_stores(bytes.dkv, part.bytes.dkv, segment, *part.segment);
      }
    }
    table.add_in_flight(bytes);
    if (table.layout().spread_vocabulary)
      fold_vocabulary(bytes, static_cast<std::size_t>(table.layout().ranks()));
  }
}

}  // namespace slimpack
