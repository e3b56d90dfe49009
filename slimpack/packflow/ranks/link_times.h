// Link times: when messages between threads would arrive over the links of a cluster. In virtual
// time ranks wait for these times.
//
// The messages of one exchange share network cards with each other, and those of one rank its link.
// Messages of different groups do not slow each other: which of them comes first in virtual time is
// not known when they are sent. Barriers and sums of numbers take no time.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "slimpack/base/units.h"
#include "slimpack/spec/hardware.h"

namespace slimpack {

struct LinkUse {
  LinkMap map;
  /// A shift's messages to other nodes leave over all network cards, where they arrive sooner.
  bool route = false;
};

/// The messages that one rank sends, one after the other.
class SenderLink {
 public:
  SenderLink(const LinkMap& map, std::int32_t rank) : map_(map), rank_(rank) {}

  /// When a message that leaves at `sent` arrives.
  [[nodiscard]] Nanos arrival(Nanos sent, std::int32_t to, Bytes bytes);

 private:
  LinkMap map_;
  std::int32_t rank_;
  double node_free_ = 0, nic_free_ = 0;  ///< when the last message will have left
};

/// One member's part of an exchange of a group: the bytes that leave it, and when they do.
struct GroupMessage {
  Nanos sent;
  Bytes bytes;
};

/// Exchanges of a group, one after the other.
class GroupLinks {
 public:
  /// `ranks`: of the members, equally far apart.
  GroupLinks(const LinkUse& use, std::vector<std::int32_t> ranks);

  /// When each member has the message of the member `step` places before it.
  [[nodiscard]] std::vector<Nanos> shift(std::span<const GroupMessage> sent, std::int32_t step);
  /// One member's part of an exchange in which it gives something to each other member.
  struct ToEach {
    Nanos sent;
    std::vector<Bytes> bytes;  ///< by member
  };
  /// When each member has the messages of all members.
  [[nodiscard]] std::vector<Nanos> all_to_all(std::span<const ToEach> sent);
  /// When all members have the messages of all; messages without bytes take no time.
  [[nodiscard]] Nanos collective(std::span<const GroupMessage> sent);
  /// When all have the sum of gradients, which nodes sum first, or parameters, which go the same
  /// way back.
  [[nodiscard]] Nanos reduction(std::span<const GroupMessage> sent);

 private:
  /// When all have what all sent, each over its own link.
  [[nodiscard]] Nanos along(const Link& link, std::span<const GroupMessage> sent);
  /// When the last messages will have left.
  struct Queues {
    std::vector<double> members;  ///< inside their nodes
    std::vector<double> nics;     ///< of all nodes
  };
  /// A message between two members.
  struct Message {
    std::size_t from, to;
    GroupMessage content;
  };
  /// When each message arrives: directly, or by route where that is over sooner.
  [[nodiscard]] std::vector<double> arrivals(const std::vector<Message>& messages);
  [[nodiscard]] std::vector<double> arrivals(const std::vector<Message>& messages, bool route,
                                             Queues& queues) const;
  [[nodiscard]] double inside(const GroupMessage& message, std::size_t member, double bytes,
                              Queues& queues) const;
  [[nodiscard]] double direct(const GroupMessage& message, std::size_t member,
                              Queues& queues) const;
  [[nodiscard]] double routed(const GroupMessage& message, std::size_t member,
                              Queues& queues) const;

  LinkUse use_;
  std::vector<std::int32_t> ranks_;
  NodePlacement placement_;  ///< of the members, as replicas
  Queues queues_;
  double collective_free_ = 0;
};

}  // namespace slimpack
