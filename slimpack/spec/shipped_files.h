// Shipped files: shapes of models and figures of machines that come with slimpack, by name.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace slimpack {

/// A kind of shipped files.
struct Shipped {
  std::string_view what;    ///< for people
  std::string_view folder;  ///< "models"
  std::string_view ending;  ///< ".json"
};
inline constexpr Shipped kShippedModels{"model", "models", ".json"};
inline constexpr Shipped kShippedHardware{"hardware", "hardware", ".toml"};

/// The names of this kind, sorted: "llama-3.1-8b". Empty where no such folder is beside the
/// program.
[[nodiscard]] std::vector<std::string> shipped_names(const Shipped& kind);

/// The file that a path or a shipped name stands for. `path` itself where it exists; of a folder of
/// a model its config.json. Else the shipped file of the name that `given` is, as the user wrote
/// it; else `path`. Throws InvalidInput for a name that resembles a shipped one.
[[nodiscard]] std::filesystem::path shipped_or(const std::filesystem::path& path,
                                               std::string_view given, const Shipped& kind);

}  // namespace slimpack
