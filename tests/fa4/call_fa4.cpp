// Calls libslimpack_fa4.so as the engine does, and compares it with plain loops in double
// precision: three sequences whose queries are the last part of longer ones, and one block of which
// every query sees every key; forward, backward, and backward in fixed order. tools/fa4/build.sh
// builds it.
//
//   call_fa4 LIBRARY           on a Hopper GPU; fails if a difference is too large
//   call_fa4 LIBRARY launch    calls only: with pretended_cuda.so where there is no GPU
#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "slimpack/packflow/kernels/fa4_library.h"

namespace {

void check(int error, const char* what) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "%s: error %d: %s\n", what, error,
               cudaGetErrorString(static_cast<cudaError_t>(error)));
  std::exit(1);
}
#define CHECK(call) check(call, #call)

using Bf16 = std::uint16_t;
using Doubles = std::vector<double>;

double wide(Bf16 x) {
  const std::uint32_t bits = std::uint32_t{x} << 16;
  float value;
  std::memcpy(&value, &bits, 4);
  return value;
}

template <class T>
T* on_device(const std::vector<T>& host) {
  void* data = nullptr;
  CHECK(cudaMalloc(&data, host.size() * sizeof(T)));
  CHECK(cudaMemcpy(data, host.data(), host.size() * sizeof(T), cudaMemcpyHostToDevice));
  return static_cast<T*>(data);
}

template <class T>
std::vector<T> on_host(const void* device, std::size_t count) {
  std::vector<T> host(count);
  CHECK(cudaMemcpy(host.data(), device, count * sizeof(T), cudaMemcpyDeviceToHost));
  return host;
}

/// [rows, heads, D] on the device and, in double precision, here.
struct Rows {
  Fa4Rows device;
  Doubles host;

  Rows(int rows, int heads, int dim, std::mt19937& random) {
    std::normal_distribution<float> normal;
    std::vector<Bf16> bf16(std::size_t(rows) * heads * dim);
    for (Bf16& x : bf16) {
      const float value = normal(random);
      std::uint32_t bits;
      std::memcpy(&bits, &value, 4);
      host.push_back(wide(x = static_cast<Bf16>(bits >> 16)));
    }
    device = {on_device(bf16), rows, heads, std::int64_t{heads} * dim, dim};
  }
  Doubles computed() const {
    Doubles result;
    for (const Bf16 x : on_host<Bf16>(device.data, host.size())) result.push_back(wide(x));
    return result;
  }
};

/// Adds a line; NaN and lines above `limit` are failures.
bool compare(const char* what, const Doubles& computed, const Doubles& expected, double limit) {
  double difference = 0, size = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    difference += (computed[i] - expected[i]) * (computed[i] - expected[i]);
    size += expected[i] * expected[i];
  }
  const double relative = std::sqrt(difference / size);
  std::printf("  %-4s relative error %.2e (limit %.0e)\n", what, relative, limit);
  return relative <= limit;
}

struct Case {
  int dim, group, key_heads;
  bool causal;
  std::vector<int> queries, keys;  ///< of each sequence
};

/// The beginning of each sequence, and the end of the last.
std::vector<int> ends_of(const std::vector<int>& lengths) {
  std::vector<int> ends{0};
  for (const int length : lengths) ends.push_back(ends.back() + length);
  return ends;
}

/// Attention and its gradients in double precision.
struct Reference {
  const Case& c;
  const Rows &q, &k, &v, &dout;
  Doubles out, lse, dq, dk, dv;

  Reference(const Case& of, const Rows& queries, const Rows& keys, const Rows& values,
            const Rows& gradient)
      : c(of),
        q(queries),
        k(keys),
        v(values),
        dout(gradient),
        out(q.host.size()),
        lse(q.host.size() / c.dim),
        dq(q.host.size()),
        dk(k.host.size()),
        dv(k.host.size()) {
    const std::vector<int> q_ends = ends_of(c.queries), k_ends = ends_of(c.keys);
    for (std::size_t b = 0; b < c.queries.size(); ++b)
      for (int n = 0; n < c.group * c.key_heads; ++n)
        for (int t = q_ends[b]; t < q_ends[b + 1]; ++t)
          add_query(t, n, k_ends[b], k_ends[b + 1] - (c.causal ? q_ends[b + 1] - 1 - t : 0));
  }

 private:
  [[nodiscard]] std::size_t at_query(int t, int n) const {
    return (std::size_t(t) * c.group * c.key_heads + n) * c.dim;
  }
  [[nodiscard]] std::size_t at_key(int s, int n) const {
    return (std::size_t(s) * c.key_heads + n / c.group) * c.dim;
  }
  [[nodiscard]] double dot(const double* x, const double* y) const {
    double sum = 0;
    for (int i = 0; i < c.dim; ++i) sum += x[i] * y[i];
    return sum;
  }

  /// A query that sees the keys from `first` to `seen`.
  void add_query(int t, int n, int first, int seen) {
    const double scale = 1 / std::sqrt(c.dim);
    const double *row = &q.host[at_query(t, n)], *d_row = &dout.host[at_query(t, n)];
    double* const y = &out[at_query(t, n)];
    Doubles p(seen - first);
    double max = -std::numeric_limits<double>::infinity(), sum = 0;
    for (int s = first; s < seen; ++s)
      max = std::max(max, p[s - first] = scale * dot(row, &k.host[at_key(s, n)]));
    for (double& x : p) sum += x = std::exp(x - max);
    const std::size_t rows = q.host.size() / (c.dim * c.group * c.key_heads);
    lse[n * rows + t] = max + std::log(sum);
    for (int s = first; s < seen; ++s)
      for (int i = 0; i < c.dim; ++i) y[i] += p[s - first] / sum * v.host[at_key(s, n) + i];
    const double row_sum = dot(y, d_row);
    for (int s = first; s < seen; ++s) {
      const double weight = p[s - first] / sum;
      const double d_product = scale * weight * (dot(d_row, &v.host[at_key(s, n)]) - row_sum);
      for (int i = 0; i < c.dim; ++i) {
        dq[at_query(t, n) + i] += d_product * k.host[at_key(s, n) + i];
        dk[at_key(s, n) + i] += d_product * row[i];
        dv[at_key(s, n) + i] += weight * d_row[i];
      }
    }
  }
};

bool run(const Fa4Functions& fa4, const Case& c, bool fixed_order, bool launch_only) {
  const Fa4Kernels* kernels = fa4.find(c.dim, c.group, c.causal);
  if (kernels == nullptr) return true;  // not compiled
  std::printf("D = %d, %d query heads a key head, %s, %s\n", c.dim, c.group,
              c.causal ? "causal" : "full", fixed_order ? "fixed order" : "any order");
  CHECK(fa4.load(kernels));
  CHECK(fa4.load(kernels));  // once is enough

  const std::vector<int> q_ends = ends_of(c.queries), k_ends = ends_of(c.keys);
  const int T = q_ends.back(), S = k_ends.back(), G = c.key_heads, N = G * c.group, D = c.dim;
  std::mt19937 random(7);
  const Rows q(T, N, D, random), k(S, G, D, random), v(S, G, D, random), out(T, N, D, random);
  const Rows dout(T, N, D, random), dq(T, N, D, random), dk(S, G, D, random), dv(S, G, D, random);
  float* lse = on_device(std::vector<float>(std::size_t(N) * T, NAN));
  const int bounds = static_cast<int>(q_ends.size());
  const Fa4Attention a{q.device,
                       k.device,
                       v.device,
                       out.device,
                       {lse, N, T, T},
                       1 / std::sqrt(static_cast<float>(D)),
                       {on_device(q_ends), bounds},
                       {on_device(k_ends), bounds}};
  const Fa4Gradients d{dout.device,
                       dq.device,
                       dk.device,
                       dv.device,
                       fixed_order,
                       *std::max_element(c.queries.begin(), c.queries.end()),
                       *std::max_element(c.keys.begin(), c.keys.end())};
  const std::int64_t bytes = fa4.workspace_bytes(kernels, &a, &d);
  void* workspace = on_device(std::vector<char>(bytes, '\x7f'));  // poisoned

  CHECK(fa4.forward(kernels, &a, nullptr));
  CHECK(fa4.backward(kernels, &a, &d, workspace, nullptr));
  CHECK(cudaDeviceSynchronize());
  if (launch_only) return true;
  const Reference r(c, q, k, v, dout);
  const Doubles once = dq.computed();
  const std::vector<float> floats = on_host<float>(lse, r.lse.size());
  bool good = compare("out", out.computed(), r.out, 6e-3);
  good &= compare("lse", Doubles(floats.begin(), floats.end()), r.lse, 1e-4);
  good &= compare("dq", once, r.dq, 1e-2);
  good &= compare("dk", dk.computed(), r.dk, 1e-2);
  good &= compare("dv", dv.computed(), r.dv, 1e-2);
  if (!fixed_order) return good;
  CHECK(fa4.backward(kernels, &a, &d, workspace, nullptr));
  const bool same = dq.computed() == once;
  std::printf("  dq again: %s\n", same ? "the same bits" : "OTHER BITS");
  return good && same;  // memory goes with the process
}

}  // namespace

int main(int count, char** arguments) {
  if (count < 2) return std::fprintf(stderr, "call_fa4 LIBRARY [launch]\n"), 2;
  const bool launch_only = count > 2 && std::string(arguments[2]) == "launch";
  void* const library = dlopen(arguments[1], RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return std::fprintf(stderr, "%s\n", dlerror()), 2;
  const auto entry = reinterpret_cast<const Fa4Functions* (*)()>(dlsym(library, "slimpack_fa4"));
  const Fa4Functions& fa4 = *entry();
  if (fa4.version != SLIMPACK_FA4_INTERFACE) return std::fprintf(stderr, "interface\n"), 2;
  std::printf("%s\n", fa4.packages);
  if (fa4.runs_here() == 0) return std::fprintf(stderr, "no Hopper GPU here\n"), 2;
  bool good = true;
  for (const int dim : {64, 96, 128})
    for (const int group : {1, 4, 7, 8})
      for (const bool fixed_order : {false, true}) {
        good &=
            run(fa4, {dim, group, 2, true, {5, 130, 300}, {5, 200, 700}}, fixed_order, launch_only);
        good &= run(fa4, {dim, group, 2, false, {300}, {700}}, fixed_order, launch_only);
      }
  std::printf("%s\n", good ? "good" : "BAD");
  return good ? 0 : 1;
}
