// Why output could not be written: the path is wrong, or the disk failed.
#pragma once

#include <filesystem>
#include <string_view>

namespace slimpack {

/// Throws for `cause`, an errno, what "cannot DOING 'PATH'" ends in: InvalidInput where nothing can
/// be written at such a path (no permission, a folder, a read-only disk), RunFailed where it could
/// but failed (full or broken disk, quota, limit of file sizes). `elsewhere` is the remedy that
/// always helps.
[[noreturn]] void output_failed(std::string_view doing, const std::filesystem::path& path,
                                int cause, std::string_view elsewhere = "give another path");

}  // namespace slimpack
