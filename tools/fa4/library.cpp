// Lies between the interface of libslimpack_fa4.so and the compiled entries: it checks
// arguments, divides the workspace and loads kernels. compile.py compiles it; the default build
// does not.
#include <cuda_runtime_api.h>

#include <mutex>

#include <fa4_entries.h>  // written by compile.py
#include "slimpack/packflow/kernels/fa4_library.h"
#include "slimpack/packflow/kernels/fa4_workspace.h"

namespace {

using Entry = void (*)(void** arguments, int32_t count);
using Hook = void (*)(void** arguments);

/// A compiled function: its launches, and what loads its kernels.
struct Function {
  Entry call;
  Hook init, load;
  cudaLibrary_t* library = nullptr;  ///< lives as long as the process, as the kernels do
};

constexpr int32_t kMostDevices = 64;
constexpr int32_t kHopper = 9;  ///< major compute capability

// Addresses of these are what the entries take (compile.py checks that against cutlass-dsl's
// headers), and those of scalars, of the stream and of the result.
static_assert(sizeof(Fa4Rows) == 32 && sizeof(Fa4Columns) == 24 && sizeof(Fa4Bounds) == 16 &&
              sizeof(Fa4Locks) == 48);

template <class T>
void* address(const T& argument) {
  return const_cast<T*>(&argument);
}

/// cutlass-dsl's own loader takes every device of the machine, which would make each rank a context
/// on each GPU.
cudaError_t load(Function& function, int32_t device) {
  int32_t error = cudaSuccess;
  if (function.library == nullptr) {
    auto* library = new cudaLibrary_t{};
    void* arguments[] = {&library, &error};
    function.init(arguments);
    if (error != cudaSuccess) return static_cast<cudaError_t>(error);
    function.library = library;
  }
  void* arguments[] = {&function.library, &device, &error};
  function.load(arguments);  // allows the kernels their shared memory on this device
  return static_cast<cudaError_t>(error);
}

}  // namespace

struct Fa4Kernels {
  int32_t head_dim, group, causal;
  Fa4Tiles tiles;
  Function forward, backward, backward_fixed;
  uint64_t loaded_devices = 0;  ///< a bit each
};

namespace {

#define FA4_FUNCTION(name) \
  { name, name##_init, name##_load }
#define FA4_KERNELS(dim, group, causal, sum_dim, query_tile, key_tile, name) \
  {dim,                                                                      \
   group,                                                                    \
   causal,                                                                   \
   {sum_dim, query_tile, key_tile},                                          \
   FA4_FUNCTION(name##_forward),                                             \
   FA4_FUNCTION(name##_backward),                                            \
   FA4_FUNCTION(name##_backward_fixed)},
Fa4Kernels all_kernels[] = {FA4_VARIANTS(FA4_KERNELS)};

bool is_valid(const Fa4Rows& rows, int32_t count, int32_t heads) {
  return rows.rows == count && rows.heads == heads && rows.row_stride % 8 == 0 &&
         rows.head_stride % 8 == 0 && reinterpret_cast<uintptr_t>(rows.data) % 16 == 0;
}

bool is_valid(const Fa4Kernels& kernels, const Fa4Attention& a) {
  const int32_t T = a.q.rows, S = a.k.rows, N = a.q.heads, G = a.k.heads;
  return T > 0 && S > 0 && G > 0 && N == kernels.group * G && is_valid(a.q, T, N) &&
         is_valid(a.k, S, G) && is_valid(a.v, S, G) && is_valid(a.out, T, N) && a.lse.heads == N &&
         a.lse.columns == T && a.q_bounds.count > 1 && a.q_bounds.count == a.k_bounds.count;
}

bool is_valid(const Fa4Attention& a, const Fa4Gradients& d, const void* workspace) {
  const int32_t T = a.q.rows, S = a.k.rows, N = a.q.heads, G = a.k.heads;
  return is_valid(d.dout, T, N) && is_valid(d.dq, T, N) && is_valid(d.dk, S, G) &&
         is_valid(d.dv, S, G) && reinterpret_cast<uintptr_t>(workspace) % 256 == 0;
}

template <std::size_t kCount>
void call(const Function& function, void* (&arguments)[kCount]) {
  function.call(arguments, kCount);
}

const Fa4Kernels* find(int32_t head_dim, int32_t group, int32_t causal) {
  for (const Fa4Kernels& kernels : all_kernels)
    if (kernels.head_dim == head_dim && kernels.group == group && kernels.causal == causal)
      return &kernels;
  return nullptr;
}

int32_t runs_here() {
  int32_t device = 0, major = 0;
  return cudaGetDevice(&device) == cudaSuccess &&
         cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device) == cudaSuccess &&
         major == kHopper;
}

int32_t load(const Fa4Kernels* kernels) {
  static std::mutex mutex;
  int32_t device = 0;
  if (const cudaError_t error = cudaGetDevice(&device); error != cudaSuccess) return error;
  if (device >= kMostDevices) return cudaErrorInvalidDevice;
  const std::lock_guard lock(mutex);
  auto& own = const_cast<Fa4Kernels&>(*kernels);
  if ((own.loaded_devices >> device & 1) != 0) return cudaSuccess;
  for (Function* function : {&own.forward, &own.backward, &own.backward_fixed})
    if (const cudaError_t error = load(*function, device); error != cudaSuccess) return error;
  own.loaded_devices |= uint64_t{1} << device;
  return cudaSuccess;
}

int32_t forward(const Fa4Kernels* kernels, const Fa4Attention* a, void* stream) {
  if (!is_valid(*kernels, *a)) return cudaErrorInvalidValue;
  int32_t error = cudaSuccess;
  void* arguments[] = {address(a->q),
                       address(a->k),
                       address(a->v),
                       address(a->out),
                       address(a->lse),
                       address(a->scale),
                       address(a->q_bounds),
                       address(a->k_bounds),
                       &stream,
                       &error};
  call(kernels->forward, arguments);
  return error;
}

int64_t workspace_bytes(const Fa4Kernels* kernels, const Fa4Attention* a, const Fa4Gradients* d) {
  return Fa4Workspace(kernels->tiles, *a, *d, nullptr).bytes;
}

int32_t backward(const Fa4Kernels* kernels, const Fa4Attention* a, const Fa4Gradients* d,
                 void* workspace, void* stream) {
  if (!is_valid(*kernels, *a) || !is_valid(*a, *d, workspace)) return cudaErrorInvalidValue;
  Fa4Workspace w(kernels->tiles, *a, *d, workspace);
  // This comes before the preprocess: the main kernel may start while that still runs.
  const cudaError_t zeroed =
      cudaMemsetAsync(workspace, 0, w.zero_bytes, static_cast<cudaStream_t>(stream));
  if (zeroed != cudaSuccess) return zeroed;
  int32_t error = cudaSuccess;
  void* arguments[] = {address(a->q),
                       address(a->k),
                       address(a->v),
                       address(a->out),
                       address(a->lse),
                       address(d->dout),
                       address(a->scale),
                       address(a->q_bounds),
                       address(a->k_bounds),
                       &w.lse2,
                       &w.dpsum,
                       &w.dq_sum,
                       &w.dk_sum,
                       &w.dv_sum,
                       &w.dq_locks,
                       &w.dk_locks,
                       &w.dv_locks,
                       address(d->dq),
                       address(d->dk),
                       address(d->dv),
                       &stream,
                       &error};
  call(d->fixed_order != 0 ? kernels->backward_fixed : kernels->backward, arguments);
  return error;
}

const char* error_text(int32_t error) {
  return cudaGetErrorString(static_cast<cudaError_t>(error));
}

constexpr Fa4Functions kFunctions{
    SLIMPACK_FA4_INTERFACE, FA4_PACKAGES, find,      runs_here, load, forward,
    workspace_bytes,        backward,     error_text};

}  // namespace

const Fa4Functions* slimpack_fa4(void) {
  return &kFunctions;
}
