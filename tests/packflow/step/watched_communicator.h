// A communicator that tells a watch about every call: tests disturb calls there, or look at what
// they are given.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "slimpack/packflow/ranks/communicator.h"

namespace slimpack::testing {

/// A call of one rank, on whose thread it is made.
struct CommunicatorCall {
  std::int32_t rank;
  std::string name;                     ///< group and operation: "tensor all_gather", "send"
  std::span<const at::Tensor> tensors;  ///< what it is given; before a call only
  Shard shard;                          ///< the rank's of a flat tensor that it is given
};

class CommunicatorWatch {
 public:
  virtual ~CommunicatorWatch() = default;
  virtual void before(const CommunicatorCall& call) = 0;
  virtual void after(const CommunicatorCall& call) = 0;
};

/// Tells a watch about the calls of one rank's end of a group.
class WatchedGroup {
 public:
  WatchedGroup(Collective& group, CommunicatorWatch& watch, std::int32_t rank, std::string name)
      : group_(group), watch_(watch), rank_(rank), name_(std::move(name)) {}

  [[nodiscard]] Collective& group() const { return group_; }

  template <class Make>
  std::invoke_result_t<Make> watched(const char* operation, const std::vector<at::Tensor>& tensors,
                                     Make make) const {
    const std::int64_t size = tensors.size() == 1 ? tensors.front().numel() : 0;
    const CommunicatorCall call{
        rank_, name_ + " " + operation, tensors, {size, group_.size(), group_.index()}};
    watch_.before(call);
    if constexpr (std::is_void_v<std::invoke_result_t<Make>>) {
      make();
      watch_.after(call);
    } else {
      auto result = make();
      watch_.after(call);
      return result;
    }
  }

 private:
  Collective& group_;
  CommunicatorWatch& watch_;
  std::int32_t rank_;
  std::string name_;
};

class WatchedGathering final : public Gathering {
 public:
  explicit WatchedGathering(WatchedGroup group) : group_(std::move(group)) {}
  std::vector<at::Tensor> all_gather(at::Tensor own) override {
    return group_.watched("all_gather", {own}, [&] { return inner().all_gather(own); });
  }
  std::vector<at::Tensor> gather(const at::Tensor& own) override {
    return group_.watched("gather", {own}, [&] { return inner().gather(own); });
  }
  double sum(double value) override {
    return group_.watched("sum", {}, [&] { return inner().sum(value); });
  }

 private:
  Gathering& inner() { return group_.group().gathering(); }
  WatchedGroup group_;
};

class WatchedRowExchange final : public RowExchange {
 public:
  explicit WatchedRowExchange(WatchedGroup group) : group_(std::move(group)) {}
  at::Tensor all_gather_rows(const at::Tensor& own, const MemberRows& rows) override {
    return group_.watched("all_gather_rows", {own},
                          [&] { return inner().all_gather_rows(own, rows); });
  }
  at::Tensor reduce_scatter_rows(const at::Tensor& part, const MemberRows& rows) override {
    return group_.watched("reduce_scatter_rows", {part},
                          [&] { return inner().reduce_scatter_rows(part, rows); });
  }
  std::vector<at::Tensor> all_to_all(std::vector<at::Tensor> given,
                                     const std::vector<std::int64_t>& counts) override {
    return group_.watched("all_to_all", given,
                          [&] { return inner().all_to_all(std::move(given), counts); });
  }

 private:
  RowExchange& inner() { return group_.group().rows(); }
  WatchedGroup group_;
};

class WatchedShifts final : public Shifts {
 public:
  explicit WatchedShifts(WatchedGroup group) : group_(std::move(group)) {}
  void start_shift(std::vector<at::Tensor> tensors, const Zone& circle, std::int32_t step,
                   const std::vector<std::int64_t>& rows) override {
    group_.watched("start_shift", {},
                   [&] { inner().start_shift(std::move(tensors), circle, step, rows); });
  }
  std::vector<at::Tensor> finish_shift(const Zone& circle) override {
    return group_.watched("finish_shift", {}, [&] { return inner().finish_shift(circle); });
  }

 private:
  Shifts& inner() { return group_.group().shifts(); }
  WatchedGroup group_;
};

class WatchedShardReduction final : public ShardReduction {
 public:
  explicit WatchedShardReduction(WatchedGroup group) : group_(std::move(group)) {}
  void start_reduce_scatter(at::Tensor flat_N) override {
    group_.watched("start_reduce_scatter", {flat_N}, [&] { inner().start_reduce_scatter(flat_N); });
  }
  void await_reduce_scatter() override {
    group_.watched("await_reduce_scatter", {}, [&] { inner().await_reduce_scatter(); });
  }
  void finish_reduce_scatter() override {
    group_.watched("finish_reduce_scatter", {}, [&] { inner().finish_reduce_scatter(); });
  }
  void all_gather_shards(at::Tensor& flat_N) override {
    group_.watched("all_gather_shards", {flat_N}, [&] { inner().all_gather_shards(flat_N); });
  }
  void all_reduce(at::Tensor& tensor) override {
    group_.watched("all_reduce", {tensor}, [&] { inner().all_reduce(tensor); });
  }

 private:
  ShardReduction& inner() { return group_.group().shards(); }
  WatchedGroup group_;
};

class WatchedMessages final : public Messages {
 public:
  explicit WatchedMessages(WatchedGroup group) : group_(std::move(group)) {}
  void lend(std::vector<at::Tensor> tensors, std::int32_t to) override {
    group_.watched("lend", {}, [&] { inner().lend(std::move(tensors), to); });
  }
  void give(std::vector<at::Tensor> tensors, std::int32_t to) override {
    group_.watched("give", {}, [&] { inner().give(std::move(tensors), to); });
  }
  void start_receive(const std::vector<TensorForm>& forms, std::int32_t from) override {
    inner().start_receive(forms, from);
  }
  std::vector<at::Tensor> finish_receive(std::int32_t from) override {
    return group_.watched("finish_receive", {}, [&] { return inner().finish_receive(from); });
  }

 private:
  Messages& inner() { return group_.group().messages(); }
  WatchedGroup group_;
};

/// The watch outlives it.
class WatchedCommunicator final : public Communicator {
 public:
  WatchedCommunicator(std::unique_ptr<Communicator> communicator, CommunicatorWatch& watch,
                      std::int32_t rank)
      : communicator_(std::move(communicator)), watch_(watch), rank_(rank) {}

  void post_receive(Inbox inbox, const MessageForm& form) override {
    communicator_->post_receive(inbox, form);
  }
  void send(Inbox inbox, at::Tensor rows_TH) override {
    const CommunicatorCall call{rank_, "send" + name(inbox.direction), {&rows_TH, 0}, {0, 1, 0}};
    watch_.before(call);
    communicator_->send(inbox, std::move(rows_TH));
    watch_.after(call);
  }
  at::Tensor receive(Inbox inbox) override {
    const CommunicatorCall call{rank_, "receive" + name(inbox.direction), {}, {0, 1, 0}};
    watch_.before(call);
    at::Tensor rows_TH = communicator_->receive(inbox);
    watch_.after(call);
    return rows_TH;
  }
  void settle() override { communicator_->settle(); }
  [[nodiscard]] std::span<const WaitedInput> waited_inputs() const override {
    return communicator_->waited_inputs();
  }
  void require_peers() override { communicator_->require_peers(); }

  Collective& world() override { return watched("world", communicator_->world()); }
  Collective& data() override { return watched("data", communicator_->data()); }
  Collective& context(std::int32_t replicas) override {
    return watched("context", communicator_->context(replicas));
  }
  Collective& tensor() override { return watched("tensor", communicator_->tensor()); }
  Collective& pipeline() override { return watched("pipeline", communicator_->pipeline()); }
  Collective& vocabulary() override { return watched("vocabulary", communicator_->vocabulary()); }
  Collective& tied() override { return watched("tied", communicator_->tied()); }

 private:
  static std::string name(Direction direction) {
    return direction == Direction::kForward ? " forward" : " backward";
  }
  Collective& watched(const char* name, Collective& group) {
    const auto it = groups_.find(&group);
    if (it != groups_.end()) return it->second;
    const WatchedGroup end(group, watch_, rank_, name);
    Collective own(
        group.size(), group.index(),
        {std::make_unique<WatchedGathering>(end), std::make_unique<WatchedRowExchange>(end),
         std::make_unique<WatchedShifts>(end), std::make_unique<WatchedShardReduction>(end),
         std::make_unique<WatchedMessages>(end)});
    return groups_.emplace(&group, std::move(own)).first->second;
  }

  std::unique_ptr<Communicator> communicator_;
  CommunicatorWatch& watch_;
  std::int32_t rank_;
  std::map<Collective*, Collective> groups_;
};

/// For EngineHooks::wrap_communicator.
inline auto watched_by(CommunicatorWatch& watch) {
  return [&watch](std::int32_t rank, std::unique_ptr<Communicator> communicator) {
    return std::make_unique<WatchedCommunicator>(std::move(communicator), watch, rank);
  };
}

}  // namespace slimpack::testing
