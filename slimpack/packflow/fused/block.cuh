// Block programs: a kernel's body, written once. nvcc compiles it for the threads of a block, any
// other compiler as loops over the same lanes in the same order, so that tests of the body need no
// GPU.
//
// A program is a struct of arguments with `template <class B> operator()(const B& block) const`.
// Lanes share what they visit: lane l has the items l, l + lanes, … A lane's own values live in
// Own<T, lanes, n>: n registers on a GPU.
#pragma once

#include <cstdint>
#include <vector>

#include "slimpack/packflow/fused/vectors.cuh"

namespace slimpack::fused::inline SLIMPACK_WAY {

#ifdef __CUDACC__

/// `kCount` values of each lane. Indexed by constants only, so that they are registers.
template <class T, int kLanes, int kCount = 1>
struct Own {
  T value[kCount];
  SLIMPACK_DEVICE explicit Own(const T& begin) {
    for (T& v : value) v = begin;
  }
  SLIMPACK_DEVICE T& at(int, int k) { return value[kCount == 1 ? 0 : k]; }
};

template <int kLanes_>
struct Block {
  static constexpr int kLanes = kLanes_;

  SLIMPACK_DEVICE std::int64_t index() const { return blockIdx.x; }
  SLIMPACK_DEVICE std::int64_t count() const { return gridDim.x; }

  /// visit(item, own values …) of all items.
  template <class Visit, class... Owns>
  SLIMPACK_DEVICE void each(int items, Visit visit, Owns&... own) const {
#pragma unroll 4
    for (int i = threadIdx.x; i < items; i += kLanes) visit(i, own.at(0, 0)...);
  }

  /// Is each() where a lane has at most kMost items: value k of Own<T, kLanes, kMost> belongs to
  /// its item k.
  template <int kMost, class Visit, class... Owns>
  SLIMPACK_DEVICE void each_of(int items, Visit visit, Owns&... own) const {
#pragma unroll
    for (int k = 0; k < kMost; ++k) {
      const int i = threadIdx.x + k * kLanes;
      if (i < items) visit(i, own.at(0, k)...);
    }
  }

  template <class Do>
  SLIMPACK_DEVICE void once(Do what) const {
    if (threadIdx.x == 0) what();
  }

  /// The lanes' values made one, which all lanes get.
  template <class T, class Merge>
  SLIMPACK_DEVICE T merged(const Own<T, kLanes>& own, Merge merge) const {
    T total = own.value[0];
    for (int step = 16; step > 0; step /= 2) total = merge(total, of_lane_xor(total, step));
    if constexpr (kLanes > 32) {
      __shared__ T of_warps[kLanes / 32];
      if (threadIdx.x % 32 == 0) of_warps[threadIdx.x / 32] = total;
      __syncthreads();
      total = of_warps[0];
      for (int warp = 1; warp < kLanes / 32; ++warp) total = merge(total, of_warps[warp]);
      __syncthreads();  // before somebody writes it again
    }
    return total;
  }

  /// Teams are `team` neighbours each, a power of two up to 32. The values of a team's lanes made
  /// one, which all of them get.
  template <class T, class Merge>
  SLIMPACK_DEVICE void merge_teams(Own<T, kLanes>& own, int team, Merge merge) const {
    for (int step = team / 2; step > 0; step /= 2)
      own.value[0] = merge(own.value[0], of_lane_xor(own.value[0], step));
  }

  /// The values of lane i of every team made one, which lane i of the first team gets.
  template <class T, class Merge>
  SLIMPACK_DEVICE void merge_across_teams(Own<T, kLanes>& own, int team, Merge merge) const {
    __shared__ T of_lanes[kLanes];
    of_lanes[threadIdx.x] = own.value[0];
    __syncthreads();
    if (static_cast<int>(threadIdx.x) < team)
      for (int lane = static_cast<int>(threadIdx.x) + team; lane < kLanes; lane += team)
        own.value[0] = merge(own.value[0], of_lanes[lane]);
    __syncthreads();  // before somebody writes it again
  }

 private:
  template <class T>
  static SLIMPACK_DEVICE T of_lane_xor(const T& own, int step) {
    T other;
    for (unsigned i = 0; i < sizeof(T) / 4; ++i)
      reinterpret_cast<float*>(&other)[i] =
          __shfl_xor_sync(0xffffffffu, reinterpret_cast<const float*>(&own)[i], step);
    return other;
  }
};

template <int kLanes, int kResident, class Program>
__global__ void __launch_bounds__(kLanes, kResident) run(const Program program) {
  program(Block<kLanes>());
}

/// At least `kResident` blocks fit into a multiprocessor. Returns a cudaError_t: 0, or why nothing
/// was launched.
template <int kLanes, int kResident, class Program>
int launch(std::int64_t blocks, Queue queue, const Program& program) {
  if (blocks == 0) return cudaSuccess;
  // A process may have several copies of the CUDA runtime, each with its own current device.
  if (const cudaError_t error = cudaSetDevice(queue.device); error != cudaSuccess) return error;
  const auto grid = static_cast<unsigned>(blocks);
  run<kLanes, kResident><<<grid, kLanes, 0, static_cast<cudaStream_t>(queue.stream)>>>(program);
  return cudaGetLastError();
}

/// The number of the device's multiprocessors; 0 where it does not say.
inline std::int64_t multiprocessors(int device) {
  int count = 0;
  static_cast<void>(cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device));
  return count;
}

#else  // the same as loops

template <class T, int kLanes, int kCount = 1>
struct Own {
  std::vector<T> value;
  explicit Own(const T& begin) : value(kLanes * kCount, begin) {}
  T& at(int lane, int k) { return value[(kCount == 1 ? 0 : k) * kLanes + lane]; }
};

template <int kLanes_>
struct Block {
  static constexpr int kLanes = kLanes_;
  std::int64_t own_index, own_count;

  std::int64_t index() const { return own_index; }
  std::int64_t count() const { return own_count; }

  template <class Visit, class... Owns>
  void each(int items, Visit visit, Owns&... own) const {
    for (int lane = 0; lane < kLanes; ++lane)
      for (int i = lane; i < items; i += kLanes) visit(i, own.at(lane, 0)...);
  }

  template <int kMost, class Visit, class... Owns>
  void each_of(int items, Visit visit, Owns&... own) const {
    for (int i = 0; i < items && i < kMost * kLanes; ++i)
      visit(i, own.at(i % kLanes, i / kLanes)...);
  }

  template <class Do>
  void once(Do what) const {
    what();
  }

  template <class T, class Merge>
  T merged(const Own<T, kLanes>& own, Merge merge) const {
    std::vector<T> lanes = own.value;
    for (int step = 16; step > 0; step /= 2)
      for (int lane = 0; lane < kLanes; ++lane)
        if ((lane & step) == 0) lanes[lane] = merge(lanes[lane], lanes[lane ^ step]);
    T total = lanes[0];
    for (int warp = 1; warp < kLanes / 32; ++warp) total = merge(total, lanes[32 * warp]);
    return total;
  }

  template <class T, class Merge>
  void merge_teams(Own<T, kLanes>& own, int team, Merge merge) const {
    for (int step = team / 2; step > 0; step /= 2) {
      const std::vector<T> before = own.value;
      for (int lane = 0; lane < kLanes; ++lane)
        own.value[lane] = merge(before[lane], before[lane ^ step]);
    }
  }

  template <class T, class Merge>
  void merge_across_teams(Own<T, kLanes>& own, int team, Merge merge) const {
    for (int lane = team; lane < kLanes; ++lane)
      own.value[lane % team] = merge(own.value[lane % team], own.value[lane]);
  }
};

template <int kLanes, int, class Program>
int launch(std::int64_t blocks, Queue, const Program& program) {
  for (std::int64_t block = 0; block < blocks; ++block) program(Block<kLanes>{block, blocks});
  return 0;
}

inline std::int64_t multiprocessors(int) {
  return 1;
}

#endif

}  // namespace slimpack::fused::inline SLIMPACK_WAY
