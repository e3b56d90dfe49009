// safetensors files: u64 little-endian header length, JSON header {name: {dtype, shape,
// data_offsets}}, raw row-major tensor bytes. https://github.com/huggingface/safetensors
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>

namespace slimpack {

/// Contiguous CPU tensors by name.
using NamedTensors = std::map<std::string, at::Tensor>;

/// Takes the next bytes of a file.
using ByteSink = std::function<void(std::span<const std::byte>)>;

/// The file of fp64, fp32, fp16, bf16, int64 and bool tensors, part by part. Names are sorted, so
/// equal tensors give equal bytes.
void stream_safetensors(const NamedTensors& tensors, const ByteSink& sink);

/// Writes such a file, complete or not at all.
void write_safetensors(const std::filesystem::path& file, const NamedTensors& tensors);

/// The tensors of a file's `bytes`, not copied except where their elements lie unaligned: nobody
/// may write to them. They begin anywhere, and a product's sums may depend on that: whoever
/// computes with them copies them first. Each keeps `owner` of the bytes alive. Throws InvalidInput
/// naming `origin`, tensor and rule for a header that is too long, no JSON, unknown types, offsets
/// that overlap, leave gaps, leave the file or do not match the shape.
[[nodiscard]] NamedTensors parse_safetensors(std::span<const std::byte> bytes,
                                             std::shared_ptr<const void> owner,
                                             const std::string& origin);

/// A file's tensors, mapped into memory and read on first use. The file must not change as long as
/// one of them lives.
[[nodiscard]] NamedTensors read_safetensors(const std::filesystem::path& file);

/// A number of the tensor that is not finite; none if all are. Reads every number once.
[[nodiscard]] std::optional<double> number_not_finite(const at::Tensor& tensor);

/// Throws InvalidInput naming the file and the first tensor by name that holds a number that is not
/// finite. Reads every number once.
void require_finite_file(const std::filesystem::path& file);

}  // namespace slimpack
