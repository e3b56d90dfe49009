#include "slimpack/packflow/ranks/link_times.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <utility>

#include "slimpack/cost/reduction.h"

namespace slimpack {
namespace {

double nanos(Nanos time) {
  return static_cast<double>(time.count());
}
double count(Bytes bytes) {
  return static_cast<double>(bytes.count());
}
Nanos rounded(double time) {
  return Nanos(std::llround(time));
}

/// When a message has left a link that is busy until `free`.
double leaves(double sent, double time, double& free) {
  return free = std::max(sent, free) + time;
}

/// The first network card of a node, and that of a rank.
std::size_t first_nic(const LinkMap& map, std::int32_t rank) {
  return static_cast<std::size_t>(map.node(rank) * map.nics_per_node);
}
std::size_t nic_of(const LinkMap& map, std::int32_t rank) {
  const std::int32_t place = rank % map.ranks_per_node;
  return first_nic(map, rank) +
         static_cast<std::size_t>(place * map.nics_per_node / map.ranks_per_node);
}

}  // namespace

Nanos SenderLink::arrival(Nanos sent, std::int32_t to, Bytes bytes) {
  if (map_.node(rank_) == map_.node(to))
    return rounded(leaves(nanos(sent), count(bytes) * map_.node_per_byte, node_free_) +
                   map_.node_latency);
  return rounded(leaves(nanos(sent), count(bytes) * map_.nic_per_byte, nic_free_) +
                 map_.nic_latency);
}

GroupLinks::GroupLinks(const LinkUse& use, std::vector<std::int32_t> ranks)
    : use_(use), ranks_(std::move(ranks)) {
  placement_ = {.ranks_per_node = use.map.ranks_per_node,
                .tensor = ranks_.size() > 1 ? ranks_[1] - ranks_[0] : 1,
                .replicas = static_cast<std::int32_t>(ranks_.size())};
  queues_.members.resize(ranks_.size());
  queues_.nics.resize(
      static_cast<std::size_t>(use.map.nodes(ranks_.back() + 1) * use.map.nics_per_node));
}

double GroupLinks::inside(const GroupMessage& message, std::size_t member, double bytes,
                          Queues& queues) const {
  return leaves(nanos(message.sent), bytes * use_.map.node_per_byte, queues.members[member]) +
         use_.map.node_latency;
}

double GroupLinks::direct(const GroupMessage& message, std::size_t member, Queues& queues) const {
  return leaves(nanos(message.sent), count(message.bytes) * use_.map.nic_per_byte,
                queues.nics[nic_of(use_.map, ranks_[member])]) +
         use_.map.nic_latency;
}

/// Deals a message out to a rank at each card, sends it and collects it.
double GroupLinks::routed(const GroupMessage& message, std::size_t member, Queues& queues) const {
  const LinkMap& map = use_.map;
  const double part = count(message.bytes) / map.nics_per_node;
  const double others = count(message.bytes) - part;
  const double dealt = inside(message, member, others, queues);
  double left = 0;
  const std::size_t first = first_nic(map, ranks_[member]);
  for (std::size_t nic = first; nic < first + static_cast<std::size_t>(map.nics_per_node); ++nic)
    left = std::max(left, leaves(dealt, part * map.nic_per_byte, queues.nics[nic]));
  return left + map.nic_latency + others * map.node_per_byte + map.node_latency;
}

// A message that is sent earlier leaves earlier.
std::vector<double> GroupLinks::arrivals(const std::vector<Message>& messages, bool route,
                                         Queues& queues) const {
  std::vector<std::size_t> order(messages.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, {}, [&](std::size_t i) { return messages[i].content.sent; });
  std::vector<double> arrivals(messages.size());
  for (const std::size_t i : order) {
    const auto& [from, to, content] = messages[i];
    const bool same_node = use_.map.node(ranks_[from]) == use_.map.node(ranks_[to]);
    arrivals[i] = same_node ? inside(content, from, count(content.bytes), queues)
                  : route   ? routed(content, from, queues)
                            : direct(content, from, queues);
  }
  return arrivals;
}

std::vector<double> GroupLinks::arrivals(const std::vector<Message>& messages) {
  if (!use_.route || messages.empty()) return arrivals(messages, false, queues_);
  Queues straight = queues_, routed = queues_;
  std::vector<double> times = arrivals(messages, false, straight);
  std::vector<double> by_route = arrivals(messages, true, routed);
  const bool sooner = std::ranges::max(by_route) < std::ranges::max(times);
  queues_ = sooner ? std::move(routed) : std::move(straight);
  return sooner ? by_route : times;
}

std::vector<Nanos> GroupLinks::shift(std::span<const GroupMessage> sent, std::int32_t step) {
  const auto size = static_cast<std::int32_t>(sent.size());
  std::vector<Message> messages;
  for (std::size_t m = 0; m < sent.size(); ++m) {
    const std::int32_t place = (static_cast<std::int32_t>(m) + step) % size;
    messages.push_back({m, static_cast<std::size_t>(place < 0 ? place + size : place), sent[m]});
  }
  const std::vector<double> times = arrivals(messages);
  std::vector<Nanos> by_member(sent.size());
  for (std::size_t m = 0; m < sent.size(); ++m) by_member[messages[m].to] = rounded(times[m]);
  return by_member;
}

// Each begins with the next member, so that not all send to the same one.
std::vector<Nanos> GroupLinks::all_to_all(std::span<const ToEach> sent) {
  std::vector<Message> messages;
  for (std::size_t distance = 1; distance < sent.size(); ++distance)
    for (std::size_t from = 0; from < sent.size(); ++from) {
      const std::size_t to = (from + distance) % sent.size();
      const Bytes bytes = sent[from].bytes[to];
      if (bytes > Bytes(0)) messages.push_back({from, to, {sent[from].sent, bytes}});
    }
  const std::vector<double> times = arrivals(messages);
  std::vector<Nanos> by_member;
  for (const ToEach& own : sent) by_member.push_back(own.sent);
  for (std::size_t i = 0; i < messages.size(); ++i) {
    Nanos& member = by_member[messages[i].to];
    member = std::max(member, rounded(times[i]));
  }
  return by_member;
}

Nanos GroupLinks::along(const Link& link, std::span<const GroupMessage> sent) {
  Nanos all{0};
  Bytes most{0};
  for (const GroupMessage& message : sent) {
    all = std::max(all, message.sent);
    most = std::max(most, message.bytes);
  }
  if (most == Bytes(0)) return all;
  const double time = link.latency + count(most) * link.per_byte;
  return rounded(leaves(nanos(all), time, collective_free_));
}

Nanos GroupLinks::collective(std::span<const GroupMessage> sent) {
  const LinkMap& map = use_.map;
  return along(map.link(map.node(ranks_.front()) == map.node(ranks_.back())), sent);
}

// Gradients take the way that process_reduction.h describes.
Nanos GroupLinks::reduction(std::span<const GroupMessage> sent) {
  if (placement_.replicas_summed_in_node() == 1) return collective(sent);
  Link link = reduction_link(use_.map, placement_);
  link.latency *= reduction_rounds(placement_);
  return along(link, sent);
}

}  // namespace slimpack
