#include "tests/packflow/support/pretended_order.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <mutex>
#include <vector>

#include "tests/packflow/support/pretended_queues.h"

namespace slimpack::testing {
namespace {

/// A use of the bytes from the first to the last element of a tensor.
struct Use {
  QueueMark mark;
  std::int64_t begin, end;
  Access access;
};

std::mutex order_mutex;
// The keys are where the memory begins.
std::map<const void*, std::vector<Use>> uses;
std::map<const void*, c10::StreamId> owners;

Use use_of(c10::StreamId queue, const at::Tensor& tensor, Access access) {
  std::int64_t elements = 1;
  for (std::int64_t d = 0; d < tensor.dim(); ++d)
    elements += (tensor.size(d) - 1) * tensor.stride(d);
  const auto size = static_cast<std::int64_t>(tensor.element_size());
  const std::int64_t begin = tensor.storage_offset() * size;
  return {end_of(queue), begin, begin + elements * size, access};
}

bool conflict(const Use& a, const Use& b) {
  return a.begin < b.end && b.begin < a.end &&
         (a.access == Access::kWrite || b.access == Access::kWrite);
}

}  // namespace

void note_access(c10::StreamId queue, const at::Tensor& tensor, Access access) {
  if (!tensor.defined() || tensor.is_cpu() || tensor.numel() == 0) return;
  const Use now = use_of(queue, tensor, access);
  const std::lock_guard lock(order_mutex);
  std::vector<Use>& all = uses[tensor.storage().data()];
  for (const Use& before : all)
    TORCH_CHECK(!conflict(now, before) || comes_after(queue, before.mark),
                "queues race: nothing orders queue ", queue, " after queue ", before.mark.queue,
                ", whose work is on the same memory");
  std::erase_if(all, [&](const Use& before) {
    return before.mark.queue == queue && before.access == access && now.begin <= before.begin &&
           before.end <= now.end;
  });
  all.push_back(now);
}

void note_allocation(c10::StreamId queue, const void* memory) {
  const std::lock_guard lock(order_mutex);
  uses.erase(memory);
  owners[memory] = queue;
}

c10::StreamId owner_of(const at::Tensor& tensor) {
  const std::lock_guard lock(order_mutex);
  return owners[tensor.storage().data()];
}

}  // namespace slimpack::testing
