#include "slimpack/packflow/kernels/flash_kernel.h"

#include <ATen/Context.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <c10/core/DeviceGuard.h>
#include <dlfcn.h>
#include <fmt/format.h>

#include <array>
#include <cmath>
#include <cstdlib>
#include <optional>
#include <system_error>

#include "slimpack/base/error.h"
#include "slimpack/packflow/device/device.h"

namespace slimpack {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kFile = "libslimpack_fa4.so";

/// Folders to look into, from that of the program or module: of either itself, of a module in the
/// build folder's python/slimpack, of a program in its bench or tests.
constexpr std::array<std::string_view, 4> kPlaces{".", "../..", "..", "../../.."};

Fa4Rows rows_of(const at::Tensor& x_THD) {
  SLIMPACK_CHECK(x_THD.stride(2) == 1);
  return {x_THD.data_ptr(), static_cast<std::int32_t>(x_THD.size(0)),
          static_cast<std::int32_t>(x_THD.size(1)), x_THD.stride(0), x_THD.stride(1)};
}

Fa4Bounds bounds_of(const at::Tensor& ends_B1) {
  return {ends_B1.data_ptr(), static_cast<std::int32_t>(ends_B1.numel())};
}

/// The bounds of a call, made here where it has one block.
struct Bounds {
  at::Tensor queries_B1, keys_B1;
  std::int64_t longest_queries, longest_keys;

  Bounds(const FlashCall& call, const at::Tensor& q_TND, const KeysValues& kv)
      : longest_queries(call.longest_queries(q_TND)), longest_keys(call.longest_keys(kv)) {
    if (call.sequences != nullptr) {
      queries_B1 = call.sequences->query_ends_B1;
      keys_B1 = call.sequences->key_ends_B1;
      return;
    }
    const auto options = q_TND.options().dtype(at::kInt);
    const auto block = [&](std::int64_t rows) { return at::arange(0, rows + 1, rows, options); };
    queries_B1 = block(longest_queries);
    keys_B1 = longest_keys == longest_queries ? queries_B1 : block(longest_keys);
  }
};

Fa4Attention attention_of(const at::Tensor& q_TND, const KeysValues& kv, const at::Tensor& out_TND,
                          const at::Tensor& lse_NT, const Bounds& bounds) {
  return {rows_of(q_TND),
          rows_of(kv.k),
          rows_of(kv.v),
          rows_of(out_TND),
          {lse_NT.data_ptr(), static_cast<std::int32_t>(lse_NT.size(0)),
           static_cast<std::int32_t>(lse_NT.size(1)), lse_NT.stride(0)},
          1 / std::sqrt(static_cast<float>(q_TND.size(2))),
          bounds_of(bounds.queries_B1),
          bounds_of(bounds.keys_B1)};
}

AttentionHeads heads_of(const at::Tensor& q_TND, const KeysValues& kv) {
  return {q_TND.size(1), kv.k.size(1), q_TND.size(2)};
}

}  // namespace

FlashAttention4::FlashAttention4(const fs::path& library) : library_(library) {
  // Kernels stay loaded as long as the process lives, so it is never closed.
  void* const opened = ::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (opened == nullptr)
    invalid_input(
        "FlashAttention-4 cannot be opened: {}; make it anew with \"make fa4\", or remove it",
        ::dlerror());
  const auto entry = reinterpret_cast<const Fa4Functions* (*)()>(::dlsym(opened, "slimpack_fa4"));
  if (entry == nullptr)
    invalid_input("{} has no function slimpack_fa4; make it anew with \"make fa4\", or remove it",
                  library.string());
  functions_ = entry();
  if (functions_->version != SLIMPACK_FA4_INTERFACE)
    invalid_input(
        "{} has interface {}, this program needs {}; make it anew with \"make fa4\", or remove it",
        library.string(), functions_->version, SLIMPACK_FA4_INTERFACE);
}

const Fa4Kernels* FlashAttention4::kernels(const AttentionHeads& heads, bool causal) const {
  if (heads.queries % heads.keys != 0) return nullptr;
  return functions_->find(static_cast<std::int32_t>(heads.dim),
                          static_cast<std::int32_t>(heads.queries / heads.keys), causal ? 1 : 0);
}

void FlashAttention4::require_done(std::int32_t error, const char* what) const {
  if (error == 0) return;
  run_failed("FlashAttention-4 {}: {} (CUDA error {}); take FlashAttention-2 with SLIMPACK_FA4=",
             what, functions_->error_text(error), error);
}

std::string FlashAttention4::refusal(const at::Tensor& like, const AttentionHeads& heads) const {
  if (like.scalar_type() != at::kBFloat16) return "it takes bf16 alone";
  if (heads.windowed) return "it has no kernels for windows";
  if (kernels(heads, true) == nullptr || kernels(heads, false) == nullptr)
    return fmt::format("{} has no kernels for heads of {} with {} query heads for {} key heads",
                       library_.string(), heads.dim, heads.queries, heads.keys);
  const c10::DeviceGuard guard(like.device());
  if (functions_->runs_here() == 0) return "the device is no Hopper GPU";
  return {};
}

bool FlashAttention4::supports(const at::Tensor& like, const AttentionHeads& heads) const {
  if (!refusal(like, heads).empty()) return false;
  const c10::DeviceGuard guard(like.device());
  for (const bool causal : {true, false})
    require_done(functions_->load(kernels(heads, causal)), "cannot be loaded");
  return true;
}

AttentionResult FlashAttention4::forward(const FlashCall& call, const at::Tensor& q_TND,
                                         const KeysValues& kv) const {
  const Bounds bounds(call, q_TND, kv);
  const at::Tensor out_TND = at::empty(q_TND.sizes(), q_TND.options());
  const at::Tensor lse_NT =
      at::empty({q_TND.size(1), q_TND.size(0)}, q_TND.options().dtype(at::kFloat));
  const Fa4Attention a = attention_of(q_TND, kv, out_TND, lse_NT, bounds);
  const c10::DeviceGuard guard(q_TND.device());
  require_done(functions_->forward(kernels(heads_of(q_TND, kv), call.causal), &a,
                                   own_queue(q_TND.device()).native_handle()),
               "failed forward");
  return {out_TND, lse_NT.transpose(0, 1)};
}

AttentionGradients FlashAttention4::backward(const FlashCall& call, const QueryRows& rows,
                                             const KeysValues& kv) const {
  const Bounds bounds(call, rows.q_TND, kv);
  const at::Tensor lse_NT = lse_by_head(rows.lse_TN);
  const auto room = [](const at::Tensor& x) { return at::empty(x.sizes(), x.options()); };
  AttentionGradients result{room(rows.q_TND), room(kv.k), room(kv.v)};
  const Fa4Attention a = attention_of(rows.q_TND, kv, rows.out_TND, lse_NT, bounds);
  const Fa4Gradients d{rows_of(rows.dout_TND),
                       rows_of(result.dq_TND),
                       rows_of(result.dk_TGD),
                       rows_of(result.dv_TGD),
                       at::globalContext().deterministicAlgorithms() ? 1 : 0,
                       static_cast<std::int32_t>(bounds.longest_queries),
                       static_cast<std::int32_t>(bounds.longest_keys)};
  const Fa4Kernels* const own = kernels(heads_of(rows.q_TND, kv), call.causal);
  const at::Tensor workspace =
      at::empty({functions_->workspace_bytes(own, &a, &d)}, rows.q_TND.options().dtype(at::kByte));
  const c10::DeviceGuard guard(rows.q_TND.device());
  require_done(functions_->backward(own, &a, &d, workspace.data_ptr(),
                                    own_queue(rows.q_TND.device()).native_handle()),
               "failed backward");
  return result;
}

fs::path find_fa4_library() {
  std::error_code none;
  if (const char* const given = std::getenv("SLIMPACK_FA4"); given != nullptr) return given;
  Dl_info info{};
  if (::dladdr(reinterpret_cast<const void*>(&find_fa4_library), &info) == 0) return {};
  const fs::path own = fs::canonical(info.dli_fname, none).parent_path();
  for (const std::string_view place : kPlaces)
    if (const fs::path file = own / place / kFile; fs::exists(file, none))
      return fs::canonical(file, none);
  return {};
}

}  // namespace slimpack
