// The part of a communicator that threads and processes share: its groups by kind.
#pragma once

#include <cstdint>
#include <map>
#include <utility>

#include "slimpack/base/error.h"
#include "slimpack/packflow/ranks/communicator.h"
#include "slimpack/packflow/ranks/rank_groups.h"

namespace slimpack {

class GroupedCommunicator : public Communicator {
 public:
  [[nodiscard]] Collective& world() override { return group(GroupKind::kWorld); }
  [[nodiscard]] Collective& data() override { return group(GroupKind::kData); }
  [[nodiscard]] Collective& context(std::int32_t replicas) override {
    return group(GroupKind::kContext, replicas);
  }
  [[nodiscard]] Collective& tensor() override { return group(GroupKind::kTensor); }
  [[nodiscard]] Collective& pipeline() override { return group(GroupKind::kPipeline); }
  [[nodiscard]] Collective& vocabulary() override { return group(GroupKind::kVocabulary); }
  [[nodiscard]] Collective& tied() override { return group(GroupKind::kTied); }

 protected:
  /// Adds the rank's end of one of its collective_groups().
  void add(const RankGroup& group, Collective member) {
    groups_.emplace(key(group.kind, group.size), std::move(member));
  }

 private:
  using Key = std::pair<GroupKind, std::int32_t>;
  /// A rank has one group of each kind, but of kContext one of each size.
  static Key key(GroupKind kind, std::int32_t size) {
    return {kind, kind == GroupKind::kContext ? size : 0};
  }
  [[nodiscard]] Collective& group(GroupKind kind, std::int32_t size = 0) {
    const auto it = groups_.find(key(kind, size));
    SLIMPACK_CHECK(it != groups_.end(), "the rank is in no such group");
    return it->second;
  }

  std::map<Key, Collective> groups_;
};

}  // namespace slimpack
