// Order on the pretended device: work of two queues on the same memory, one of which writes, must
// be ordered by an event or by a wait of the host. On a GPU the result would depend on who is
// faster.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Stream.h>

namespace slimpack::testing {

enum class Access : bool { kRead, kWrite };

/// Notes what the queue's latest work does with a tensor. Throws c10::Error if other work is not
/// ordered with it.
void note_access(c10::StreamId queue, const at::Tensor& tensor, Access access);

/// New memory of the queue: nobody works on it.
void note_allocation(c10::StreamId queue, const void* memory);
/// The queue that the memory was allocated on. Memory that is given up is that queue's to use
/// again.
[[nodiscard]] c10::StreamId owner_of(const at::Tensor& tensor);

}  // namespace slimpack::testing
