// Tensors that ranks hand to each other stay unchanged for as long as others may read them. Kernels
// read and write where no race detector looks, so contents are compared.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "tests/packflow/step/watched_communicator.h"
#include "tests/packflow/support/random_run.h"
#include "tests/support/expect_holds.h"

namespace slimpack {
namespace {

using testing::CommunicatorCall;
using testing::random_run;
using testing::RandomRun;

/// Elements that others may read, and what they were when others began.
struct Shared {
  std::string call;
  at::Tensor elements;
  at::Tensor copy;

  Shared(const CommunicatorCall& c, at::Tensor tensor)
      : call(c.name), elements(std::move(tensor)), copy(elements.clone()) {}
  [[nodiscard]] bool changed() const { return !elements.equal(copy); }
};

/// Keeps all that the ranks of an engine share. Thread-safe.
class SharedTensors final : public testing::CommunicatorWatch {
 public:
  explicit SharedTensors(std::int32_t ranks) : reduced_(static_cast<std::size_t>(ranks)) {}

  void before(const CommunicatorCall& call) override {
    const std::lock_guard lock(mutex_);
    std::vector<Shared>& reduced = reduced_[static_cast<std::size_t>(call.rank)];
    if (call.name.ends_with("all_gather")) {
      for (const at::Tensor& tensor : call.tensors) until_the_end_.emplace_back(call, tensor);
    } else if (call.name.ends_with("all_gather_shards")) {
      until_the_end_.emplace_back(call, call.shard.of(call.tensors[0]));
    } else if (call.name.ends_with("start_reduce_scatter")) {
      // Everything but the own shard, until all have met.
      const at::Tensor& flat_N = call.tensors[0];
      reduced.emplace_back(call, flat_N.narrow(0, 0, call.shard.begin));
      reduced.emplace_back(call, flat_N.narrow(0, call.shard.end, flat_N.numel() - call.shard.end));
    } else if (call.name == "world sum") {
      for (const Shared& shared : reduced) note(shared);
      reduced.clear();
    }
  }
  void after(const CommunicatorCall& /*call*/) override {}

  /// Calls whose tensors were written to too early. REQUIRES: the step is over.
  [[nodiscard]] std::set<std::string> written_too_early() {
    for (const Shared& shared : until_the_end_) note(shared);
    return written_;
  }
  [[nodiscard]] std::size_t count() const { return count_; }

 private:
  void note(const Shared& shared) {
    ++count_;
    if (shared.changed()) written_.insert(shared.call);
  }

  std::mutex mutex_;
  std::vector<Shared> until_the_end_;
  std::vector<std::vector<Shared>> reduced_;  ///< by rank
  std::set<std::string> written_;
  std::size_t count_ = 0;
};

TEST(Handover, NobodyWritesToWhatOthersMayRead) {
  std::size_t handed_over = 0;
  testing::expect_holds(
      [&](std::uint64_t seed) {
        Rng rng(seed);
        const RandomRun run = random_run(rng);
        EngineOptions options = run.options(rng.below(2) == 0 ? Dtype::kFp32 : Dtype::kBf16);
        SharedTensors shared(options.grid().ranks());
        options.hooks.wrap_communicator = testing::watched_by(shared);
        Engine engine(options);
        const TrainConfig config;
        static_cast<void>(run.run(engine, OptimizerUpdate{config, 0}));
        RC_ASSERT(shared.written_too_early() == std::set<std::string>());
        handed_over += shared.count();
      },
      0.25);
  EXPECT_GT(handed_over, 0u);
}

}  // namespace
}  // namespace slimpack
