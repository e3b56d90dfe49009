// One body of code, compiled for several generations of processors and chosen when it runs.
#pragma once

#include <utility>

namespace slimpack {

#if defined(__x86_64__)
/// Calls f(arguments…), compiled for the widest vectors that the processor has. REQUIRES: f is
/// always_inline, as are the functions that it calls with Lanes.
template <class F, class... Arguments>
[[gnu::target("avx512f,avx512bw,avx512dq,fma")]] void with_avx512(const F& f, Arguments&&... a) {
  f(std::forward<Arguments>(a)...);
}
template <class F, class... Arguments>
[[gnu::target("avx2,fma")]] void with_avx2(const F& f, Arguments&&... a) {
  f(std::forward<Arguments>(a)...);
}
template <class F, class... Arguments>
void with_widest_simd(const F& f, Arguments&&... a) {
  static const bool avx512 = __builtin_cpu_supports("avx512f") &&
                             __builtin_cpu_supports("avx512bw") &&
                             __builtin_cpu_supports("avx512dq");
  static const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  if (avx512) return with_avx512(f, std::forward<Arguments>(a)...);
  if (avx2) return with_avx2(f, std::forward<Arguments>(a)...);
  f(std::forward<Arguments>(a)...);
}
#else
template <class F, class... Arguments>
void with_widest_simd(const F& f, Arguments&&... a) {
  f(std::forward<Arguments>(a)...);
}
#endif

}  // namespace slimpack
