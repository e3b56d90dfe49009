// Stands in for a GPU where there is none: preloaded before call_fa4, it takes the place of the
// CUDA runtime. Memory is the host's, kernels do nothing, every launch is printed. So it shows that
// the program and the compiled kernels fit together: symbols, loading, order, grids. A kernel that
// was never loaded fails, as on a GPU.
#include <cuda_runtime_api.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

constexpr cudaError_t kDone = cudaSuccess;

/// A kernel's handle points to it.
struct Kernel {
  char name[256];
};

}  // namespace

extern "C" {

cudaError_t cudaGetDeviceCount(int* count) {
  return *count = 1, kDone;
}
cudaError_t cudaGetDevice(int* device) {
  return *device = 0, kDone;
}
cudaError_t cudaSetDevice(int) {
  return kDone;
}
cudaError_t cudaGetLastError() {
  return kDone;
}
cudaError_t cudaDeviceSynchronize() {
  return kDone;
}
cudaError_t cudaStreamSynchronize(cudaStream_t) {
  return kDone;
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int) {
  *value = attribute == cudaDevAttrMultiProcessorCount            ? 132
           : attribute == cudaDevAttrComputeCapabilityMajor       ? 9
           : attribute == cudaDevAttrMaxSharedMemoryPerBlockOptin ? 232448
                                                                  : 0;
  return kDone;
}

cudaError_t cudaMalloc(void** data, size_t bytes) {
  *data = aligned_alloc(256, (bytes + 255) / 256 * 256);
  return *data == nullptr ? cudaErrorMemoryAllocation : kDone;
}
cudaError_t cudaFree(void* data) {
  return free(data), kDone;
}
cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind) {
  return std::memcpy(to, from, bytes), kDone;
}
cudaError_t cudaMemsetAsync(void* data, int value, size_t bytes, cudaStream_t) {
  std::printf("memset %zu bytes\n", bytes);
  return std::memset(data, value, bytes), kDone;
}

cudaError_t cudaLibraryLoadData(cudaLibrary_t* library, const void* code, cudaJitOption*, void**,
                                unsigned, cudaLibraryOption*, void**, unsigned) {
  const auto* bytes = static_cast<const unsigned char*>(code);
  std::printf("load machine code: begins with %02x%02x%02x%02x\n", bytes[0], bytes[1], bytes[2],
              bytes[3]);
  return *library = reinterpret_cast<cudaLibrary_t>(new int), kDone;
}
cudaError_t cudaLibraryGetKernel(cudaKernel_t* kernel, cudaLibrary_t, const char* name) {
  auto* made = new Kernel;
  const char* begin = std::strstr(name, "cuteflash_");  // FlashAttention-4's names are long
  std::snprintf(made->name, sizeof made->name, "%.20s", begin == nullptr ? name : begin + 4);
  return *kernel = reinterpret_cast<cudaKernel_t>(made), kDone;
}
cudaError_t cudaKernelSetAttributeForDevice(cudaKernel_t kernel, cudaFuncAttribute attribute,
                                            int value, int device) {
  std::printf("kernel %s: attribute %d = %d on device %d\n",
              reinterpret_cast<Kernel*>(kernel)->name, attribute, value, device);
  return kDone;
}
cudaError_t cudaFuncSetAttribute(const void*, cudaFuncAttribute, int) {
  return kDone;
}

/// cuKernelGetAttribute and cuDeviceGet, which the loader asks the driver for.
int driver_call(int* value, ...) {
  return *value = 0;
}
cudaError_t cudaGetDriverEntryPointByVersion(const char* name, void** function, unsigned,
                                             unsigned long long,
                                             cudaDriverEntryPointQueryResult* result) {
  std::printf("driver function %s\n", name);
  if (result != nullptr) *result = cudaDriverEntryPointSuccess;
  return *function = reinterpret_cast<void*>(driver_call), kDone;
}

cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void* kernel, void**) {
  if (kernel == nullptr) return cudaErrorInvalidResourceHandle;  // never loaded
  std::printf(
      "launch %s: grid %u x %u x %u, %u threads, %zu bytes of shared memory, %u attributes\n",
      static_cast<const Kernel*>(kernel)->name, config->gridDim.x, config->gridDim.y,
      config->gridDim.z, config->blockDim.x, config->dynamicSmemBytes, config->numAttrs);
  return kDone;
}

}  // extern "C"
