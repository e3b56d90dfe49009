// Operators that synchronise, by way of libtorch's callbacks around every call of an operator.
#include <ATen/record_function.h>
#include <fmt/format.h>

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

std::unique_ptr<at::ObserverContext> at_first_call(const at::RecordFunction& call) {
  if (!computes(call.name())) return nullptr;
  {
    const std::lock_guard lock(called_mutex);
    if (!called.emplace(call.name()).second) return nullptr;
  }
  synchronize(fmt::format("the first call of {}", call.name()));
  return nullptr;
}

std::unique_ptr<at::ObserverContext> at_every_call(const at::RecordFunction& call) {
  if (computes(call.name())) synchronize(call.name());
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
