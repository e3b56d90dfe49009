// Quantities as people read them: three figures and a unit, or an exact count with separators.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "slimpack/base/units.h"

namespace slimpack {

/// "512 B", "1.5 GiB", "118 MiB": binary units, one decimal below 100.
[[nodiscard]] std::string human_bytes(Bytes bytes);

/// "812", "12.3 k", "1.8 M", "256 G": decimal units, one decimal below 100.
[[nodiscard]] std::string human_count(double count);

/// "850 ns", "12.3 ms", "42.0 s", "1 m 23 s", "2 h 05 m", "3 d 04 h".
[[nodiscard]] std::string human_duration(Nanos duration);

/// "12.3%" of a share in [0, 1].
[[nodiscard]] std::string human_share(double share);

/// "812", "2K", "16M", "1G": units of powers of 1,024, rounded down.
[[nodiscard]] std::string binary_count(std::int64_t count);

/// The exact number with separators: "1,234,567".
[[nodiscard]] std::string grouped(std::int64_t number);

/// A count and what is counted: "1 document", "2,048 documents". The plural has an s.
[[nodiscard]] std::string counted(std::int64_t count, std::string_view noun);

}  // namespace slimpack
