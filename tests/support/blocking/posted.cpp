#include "tests/support/blocking/posted.h"

#include <fmt/format.h>

#include <mutex>
#include <stdexcept>
#include <utility>
#include <vector>

namespace slimpack::testing {
namespace {

std::mutex mutex;
std::vector<OperationPtr> posted;  // without most of those that have ended

std::vector<OperationPtr> outstanding() {
  const std::lock_guard lock(mutex);
  std::erase_if(posted, [](const OperationPtr& operation) { return operation->isCompleted(); });
  return posted;
}

}  // namespace

bool Operation::wait(Patience /*given*/) {
  await(what_);
  const std::lock_guard lock(mutex_);
  if (exception_) std::rethrow_exception(exception_);
  return true;
}

void Operation::await(const std::string& caller) {
  {
    std::unique_lock lock(mutex_);
    if (cv_.wait_for(lock, patience_, [&] { return completed_; })) return;
  }
  end(hang(caller, patience_));
}

void Operation::end(std::exception_ptr cause) {
  {
    const std::lock_guard lock(mutex_);
    if (completed_) return;
    completed_ = true;
    exception_ = std::move(cause);
  }
  cv_.notify_all();
}

void note_posted(const OperationPtr& operation) {
  static_cast<void>(outstanding());  // forgets what has ended
  const std::lock_guard lock(mutex);
  posted.push_back(operation);
}

std::exception_ptr hang(const std::string& waiting, Patience patience) {
  std::string all;
  for (const OperationPtr& operation : outstanding())
    all += fmt::format("{}{}", all.empty() ? "" : "; ", operation->what());
  return std::make_exception_ptr(
      std::runtime_error(fmt::format("hang: {} has waited for {} ms; posted before: {}", waiting,
                                     patience.count(), all.empty() ? "nothing" : all)));
}

void synchronize(const std::string& caller) {
  for (const OperationPtr& operation : outstanding()) operation->await(caller);
}

}  // namespace slimpack::testing
