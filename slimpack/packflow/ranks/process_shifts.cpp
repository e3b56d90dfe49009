#include "slimpack/packflow/ranks/process_collective.h"

#include <algorithm>
#include <utility>

#include "slimpack/base/error.h"
#include "slimpack/packflow/device/tensor.h"

namespace slimpack {
namespace {

using Tensors = std::vector<at::Tensor>;
using Transfer = ProcessPeers::Transfer;
using Kind = Transfer::Kind;

}  // namespace

std::int32_t ProcessShifts::node(const Zone& circle, std::int32_t member) const {
  return route_over_ == 0 ? 0 : peers_.group().rank(circle.first + member) / route_over_;
}

std::vector<std::int32_t> ProcessShifts::neighbours(const Zone& circle, std::int32_t member) const {
  std::vector<std::int32_t> result;
  for (std::int32_t m = 0; m < circle.size; ++m)
    if (node(circle, m) == node(circle, member)) result.push_back(m);
  std::ranges::rotate(result, std::ranges::find(result, member));
  return result;
}

std::vector<ProcessShifts::Part> ProcessShifts::parts_of(const Zone& circle, std::int32_t sender,
                                                         std::int32_t receiver,
                                                         std::int64_t rows) const {
  if (node(circle, sender) == node(circle, receiver))
    return {{sender, sender, receiver, receiver, 0, rows}};
  const std::vector<std::int32_t> out = neighbours(circle, sender),
                                  in = neighbours(circle, receiver);
  const std::size_t ways = std::min(out.size(), in.size());
  std::vector<Part> parts;
  for (std::size_t w = 0; w < ways; ++w) {
    const Shard shard(rows, static_cast<std::int32_t>(ways), static_cast<std::int32_t>(w));
    parts.push_back({sender, out[w], in[w], receiver, shard.begin, shard.size()});
  }
  return parts;
}

ProcessShifts::Travelling ProcessShifts::pass_on(Shift& shift, std::int32_t Part::*from,
                                                 std::int32_t Part::*to, const Zone& circle) {
  const std::int32_t own = peers_.index() - circle.first;
  std::vector<Transfer> transfers;
  for (Part& part : shift.parts) {
    if (part.*from == part.*to || part.rows == 0) continue;
    if (part.*from == own)
      for (at::Tensor& tensor : part.tensors)
        transfers.push_back({Kind::kSend, std::exchange(tensor, {}), circle.first + part.*to});
    if (part.*to != own) continue;
    // The receiver has room for all rows.
    for (const at::Tensor& room : shift.received)
      part.tensors.push_back(part.receiver == own ? room.narrow(0, part.begin, part.rows)
                                                  : empty_rows(room, part.rows));
    for (const at::Tensor& tensor : part.tensors)
      transfers.push_back({Kind::kReceive, tensor, circle.first + part.*from});
  }
  return peers_.begin(std::move(transfers));
}

void ProcessShifts::start_shift(Tensors tensors, const Zone& circle, std::int32_t step,
                                const std::vector<std::int64_t>& rows) {
  const std::int32_t own = peers_.index() - circle.first;
  const auto member = [&](std::int32_t place) {
    return (place % circle.size + circle.size) % circle.size;
  };
  Shift shift;
  const std::int64_t coming = rows[static_cast<std::size_t>(member(own - step))];
  for (const at::Tensor& tensor : tensors) shift.received.push_back(empty_rows(tensor, coming));
  for (std::int32_t sender = 0; sender < circle.size; ++sender)
    for (Part& part :
         parts_of(circle, sender, member(sender + step), rows[static_cast<std::size_t>(sender)])) {
      if (part.sender != own && part.out != own && part.in != own && part.receiver != own) continue;
      if (sender == own)
        for (const at::Tensor& tensor : tensors)
          part.tensors.push_back(tensor.contiguous().narrow(0, part.begin, part.rows));
      shift.parts.push_back(std::move(part));
    }
  tensors.clear();
  for (ProcessPeers::Message& message : pass_on(shift, &Part::sender, &Part::out, circle))
    message.wait();
  shift.messages = pass_on(shift, &Part::out, &Part::in, circle);
  shifting_[circle].push_back(std::move(shift));
}

Tensors ProcessShifts::finish_shift(const Zone& circle) {
  std::deque<Shift>& of_circle = shifting_[circle];
  SLIMPACK_CHECK(!of_circle.empty());
  Shift shift = std::move(of_circle.front());
  of_circle.pop_front();
  for (ProcessPeers::Message& message : shift.messages) message.wait();
  for (ProcessPeers::Message& message : pass_on(shift, &Part::in, &Part::receiver, circle))
    message.wait();
  return std::move(shift.received);
}

}  // namespace slimpack
