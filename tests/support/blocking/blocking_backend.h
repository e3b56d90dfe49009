// A backend of process groups that carries tensors over Gloo and blocks where NCCL blocks, so that
// tests on the CPU find what would hang on GPUs.
//
// 1. Communicators. Unbatched sends and receives have a communicator for each pair of ranks, made
//    at the pair's first one; batches and collectives share the group's. Making one blocks the
//    caller until all its members have come (torch's ProcessGroupNCCL::pointToPoint;
//    pytorch#113281, PR 74701). An eager group makes its communicator when the group is made, and
//    uses it for everything (PR 132900, PR 154132).
//    Connections. On any communicator, the first message from one member to another connects the
//    two and blocks both callers until both have come; an eager communicator connects nobody (NCCL
//    #1346, #415, #1691). So does the first collective of each kind with all members: NCCL connects
//    for it when it is first called.
// 2. A communicator executes its operations one after another in the order of their calls: it has
//    one stream (pytorch#129140). Tags mean nothing.
// 3. A send ends when its receive has begun. NCCL may end one earlier that fits into its buffers,
//    and does not promise it ("This operation is blocking for the GPU", NCCL's page on ncclSend).
// 4. The operations between startCoalescing() and endCoalescing() progress together (NCCL's page on
//    group calls).
// 5. A call that synchronises the device waits for everything that its process has posted, on all
//    groups (posted.h): NCCL's kernels spin until they are met. CUDA's programming guide says of
//    lazy loading that the first call of a kernel may synchronise.
//
// Work::wait() blocks the caller, who reads the tensor on the CPU next. NCCL's lets the stream
// wait, which delays the same operations: those posted later wait for the stream.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <utility>
#include <vector>

#include "tests/support/blocking/operation_queue.h"
#include "tests/support/blocking/posted.h"

namespace slimpack::testing {

using BackendPtr = c10::intrusive_ptr<c10d::Backend>;
using StorePtr = c10::intrusive_ptr<c10d::Store>;
using WorkPtr = c10::intrusive_ptr<c10d::Work>;

/// When communicators are made, and what connects.
enum class Way {
  kLazy,
  kEager,
  kForgetful  ///< eager; messages of one element connect nobody, as if nobody had sent them to
              ///< connect
};

class BlockingBackend final : public c10d::Backend {
 public:
  using Tensors = std::vector<at::Tensor>;
  using TensorLists = std::vector<Tensors>;

  /// `gloo` carries the tensors, `store` is the group's own. `ranks`: of the job, by member; they
  /// and `name` are for messages. Whatever blocks for longer than `patience` throws
  /// std::runtime_error.
  BlockingBackend(BackendPtr gloo, StorePtr store, std::string name,
                  std::vector<std::int64_t> ranks, Patience patience, Way way);

  [[nodiscard]] const std::string getBackendName() const override { return "blocking"; }
  [[nodiscard]] bool supportsCoalescing() const override { return true; }
  void eagerConnectSingleDevice(at::Device device) override;
  void setTimeout(Patience /*timeout*/) override {}  // its patience is that of the test
  void startCoalescing() override;
  WorkPtr endCoalescing() override;
  /// Fails what has not ended, from any thread.
  void abort() override;
  void shutdown() override { abort(); }

  WorkPtr send(Tensors& tensors, int to, int tag) override;
  WorkPtr recv(Tensors& tensors, int from, int tag) override;

  WorkPtr broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override;
  WorkPtr allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override;
  WorkPtr allgather(TensorLists& out, Tensors& in, const c10d::AllgatherOptions& options) override;
  WorkPtr _allgather_base(at::Tensor& out, at::Tensor& in,
                          const c10d::AllgatherOptions& options) override;
  WorkPtr _reduce_scatter_base(at::Tensor& out, at::Tensor& in,
                               const c10d::ReduceScatterOptions& options) override;
  WorkPtr barrier(const c10d::BarrierOptions& options) override;

 private:
  /// The number of members, by what connects them with its first use.
  using Connections = std::map<std::string, std::size_t>;
  /// The calls between startCoalescing() and endCoalescing().
  struct Batch {
    std::string what;
    std::vector<Begin> begins;
    Connections connections;
  };

  WorkPtr collective(std::string what, std::function<WorkPtr(c10d::Backend&)> begin);
  WorkPtr between(std::string what, std::pair<int, int> way, const Tensors& tensors,
                  std::function<WorkPtr(c10d::Backend&)> begin);
  WorkPtr post(const std::string& communicator, std::size_t members, std::string what,
               const Connections& connections, Begin begin);
  void connect(const std::string& communicator, const Connections& connections,
               const std::string& first);
  OperationQueue& queue_of(const std::string& communicator, std::size_t members,
                           const std::string& first);
  void meet(const std::string& place, std::size_t members, const std::string& caller);
  [[nodiscard]] std::int64_t rank_of(int member) const;
  [[nodiscard]] std::string of_all() const;

  BackendPtr gloo_;
  StorePtr store_;
  std::string name_;
  std::vector<std::int64_t> ranks_;
  Patience patience_;
  bool eager_ = false;
  Way way_;
  std::set<std::string> connected_;
  std::optional<Batch> batch_;
  std::atomic<bool> aborted_ = false;
  std::mutex mutex_;                              ///< of queues_, which abort() reads
  std::map<std::string, OperationQueue> queues_;  ///< by communicator
};

}  // namespace slimpack::testing
