// safetensors files: u64 little-endian header length, JSON header {name: {dtype, shape,
// data_offsets}}, raw row-major tensor bytes. https://github.com/huggingface/safetensors
#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <map>
#include <string>

namespace slimpack {

/// Contiguous CPU tensors by name.
using NamedTensors = std::map<std::string, at::Tensor>;

/// Writes fp64, fp32, bf16 and int64 tensors, complete or not at all. Names are sorted, so equal
/// tensors give equal files.
void write_safetensors(const std::filesystem::path& file, const NamedTensors& tensors);

/// Reads a whole file. Throws InvalidInput naming file, tensor and rule for a header that is too
/// long, no JSON, unknown types, offsets that overlap, leave gaps, leave the file or do not match
/// the shape.
[[nodiscard]] NamedTensors read_safetensors(const std::filesystem::path& file);

}  // namespace slimpack
