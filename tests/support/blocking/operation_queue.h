// The operations of one communicator: executed one after another, in the order of their calls.
#pragma once

#include <c10/util/intrusive_ptr.h>

#include <functional>
#include <memory>
#include <torch/csrc/distributed/c10d/Work.hpp>
#include <vector>

#include "tests/support/blocking/posted.h"

namespace slimpack::testing {

using Works = std::vector<c10::intrusive_ptr<c10d::Work>>;
/// Begins an operation and returns what it consists of.
using Begin = std::function<Works()>;

class OperationQueue {
 public:
  OperationQueue();
  ~OperationQueue() { stop(); }
  OperationQueue(const OperationQueue&) = delete;
  OperationQueue& operator=(const OperationQueue&) = delete;

  void push(OperationPtr operation, Begin begin);
  /// Fails what has not ended. Waits for nothing.
  void stop();

 private:
  struct State;
  std::shared_ptr<State> state_;  ///< the thread has it, too: a backend may never answer it
};

}  // namespace slimpack::testing
