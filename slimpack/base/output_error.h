// Why output could not be written: the path is wrong, or the disk failed.
#pragma once

#include <filesystem>
#include <string_view>

namespace slimpack {

/// Throws "cannot DOING 'PATH': …" for `cause`, an errno. InvalidInput: nothing can be written to
/// such a path (no permission, a folder, a read-only disk). RunFailed: the path is good but writing
/// failed (full or broken disk, quota, limit of file sizes). `elsewhere` is the remedy that always
/// helps.
[[noreturn]] void output_failed(std::string_view doing, const std::filesystem::path& path,
                                int cause, std::string_view elsewhere = "give another path");

}  // namespace slimpack
