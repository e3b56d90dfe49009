#include "slimpack/packflow/stores/host_rows.h"

#include <ATen/ops/empty.h>
#include <c10/core/StreamGuard.h>

#include <utility>

#include "slimpack/base/error.h"
#include "slimpack/packflow/device/device.h"

namespace slimpack {
namespace {

/// Room on the device for the parts.
at::Tensor room_for(const std::vector<at::Tensor>& parts, const at::TensorOptions& options) {
  std::vector<std::int64_t> sizes = parts.front().sizes().vec();
  sizes[0] = 0;
  for (const at::Tensor& part : parts) sizes[0] += part.size(0);
  return at::empty(sizes, options);
}

void copy_parts(const std::vector<at::Tensor>& parts, const at::Tensor& to) {
  std::int64_t row = 0;
  for (const at::Tensor& part : parts) {
    to.narrow(0, row, part.size(0)).copy_(part, /*non_blocking=*/true);
    row += part.size(0);
  }
}

}  // namespace

HostRows::HostRows(at::Device device) : device_(device), copies_(copy_queue(device)) {}

HostRows::~HostRows() {
  // After a step that ended early nobody takes these, and copies must not outlive their memory.
  try {
    awaited(out_);
    awaited(back_);
  } catch (const c10::Error&) {
    // The device has failed, and with it whatever was on its way.
  }
}

LayerRows HostRows::send(LayerRows rows) {
  SLIMPACK_CHECK(!out_, "rows are still on their way to host memory");
  LayerRows there;
  for (std::size_t i = 0; i < LayerRows::kTensors; ++i) {
    const at::Tensor& from = *rows.all()[i];
    if (from.defined())
      *there.all()[i] =
          at::empty(from.sizes(), from.options().device(at::kCPU).pinned_memory(true));
  }
  c10::Event done = enqueue([&] {
    for (std::size_t i = 0; i < LayerRows::kTensors; ++i)
      if (there.all()[i]->defined()) there.all()[i]->copy_(*rows.all()[i], /*non_blocking=*/true);
  });
  out_.emplace(OnTheWay{std::move(rows), std::move(done)});
  return there;
}

void HostRows::settle() {
  awaited(out_);
}

void HostRows::fetch(const RowParts& parts, const LayerRows& none) {
  SLIMPACK_CHECK(!back_, "rows are still on their way from host memory");
  LayerRows rows = none;
  for (std::size_t i = 0; i < parts.size(); ++i)
    if (!parts[i].empty()) *rows.all()[i] = room_for(parts[i], none.all()[i]->options());
  c10::Event done = enqueue([&] {
    for (std::size_t i = 0; i < parts.size(); ++i) copy_parts(parts[i], *rows.all()[i]);
  });
  back_.emplace(OnTheWay{std::move(rows), std::move(done)});
}

LayerRows HostRows::take() {
  SLIMPACK_CHECK(back_.has_value(), "no rows are on their way from host memory");
  return awaited(back_);
}

c10::Event HostRows::enqueue(const std::function<void()>& copies) const {
  c10::Event ready(device_.type());
  ready.record(own_queue(device_));
  copies_.wait(ready);
  const c10::StreamGuard on_copies(copies_);
  copies();
  c10::Event done(device_.type());
  done.record(copies_);
  return done;
}

LayerRows HostRows::awaited(std::optional<OnTheWay>& rows) const {
  if (!rows) return {};
  own_queue(device_).wait(rows->done);
  LayerRows there = std::move(rows->rows);
  rows.reset();
  return there;
}

}  // namespace slimpack
