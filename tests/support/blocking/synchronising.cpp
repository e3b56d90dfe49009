// Operators that synchronise, by way of libtorch's callbacks around every call of an operator.
#include <ATen/record_function.h>
#include <fmt/format.h>
#include <pybind11/pybind11.h>

#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "tests/support/blocking/posted.h"

namespace slimpack::testing {
namespace {

thread_local bool posts = false;
std::optional<at::CallbackHandle> callback;
std::mutex called_mutex;
std::set<std::string, std::less<>> called;

/// An operator of libtorch; the operations of process groups are operators, too.
bool computes(std::string_view name) {
  return posts && name.starts_with("aten::");
}

/// Python's other threads run meanwhile. Threads of a backend take Python's lock where they free a
/// tensor that Python has seen, and what the caller waits for is up to them; NCCL's kernels need no
/// lock.
void let_device_synchronize(const std::string& caller) {
  std::optional<pybind11::gil_scoped_release> others_run;
  if (PyGILState_Check() == 1) others_run.emplace();
  synchronize(caller);
}

std::unique_ptr<at::ObserverContext> at_first_call(const at::RecordFunction& call) {
  if (!computes(call.name())) return nullptr;
  {
    const std::lock_guard lock(called_mutex);
    if (!called.emplace(call.name()).second) return nullptr;
  }
  let_device_synchronize(fmt::format("the first call of {}", call.name()));
  return nullptr;
}

std::unique_ptr<at::ObserverContext> at_every_call(const at::RecordFunction& call) {
  if (computes(call.name())) let_device_synchronize(call.name());
  return nullptr;
}

}  // namespace

void set_synchronising(Synchronising calls) {
  if (callback) at::removeCallback(*callback);
  callback.reset();
  called.clear();
  if (calls == Synchronising::kNone) return;
  const auto function = calls == Synchronising::kFirst ? at_first_call : at_every_call;
  callback = at::addGlobalCallback(
      at::RecordFunctionCallback(function).scopes({at::RecordScope::FUNCTION}));
}

void note_posting_thread() {
  posts = true;
}

}  // namespace slimpack::testing
