#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cmath>

#include "slimpack/base/error.h"
#include "slimpack/spec/run_config.h"

namespace slimpack {

namespace {

struct Unit {
  std::string_view name;
  std::int64_t bytes;
};

constexpr std::array<Unit, 10> kUnits{{{"", 1},
                                       {"B", 1},
                                       {"kB", 1'000},
                                       {"MB", 1'000'000},
                                       {"GB", 1'000'000'000},
                                       {"TB", 1'000'000'000'000},
                                       {"KiB", std::int64_t{1} << 10},
                                       {"MiB", std::int64_t{1} << 20},
                                       {"GiB", std::int64_t{1} << 30},
                                       {"TiB", std::int64_t{1} << 40}}};

constexpr std::string_view kBareUnits = "kKMGT";
constexpr double kTooManyBytes = 0x1.0p62;

}  // namespace

Bytes parse_bytes(std::string_view text, std::string_view what) {
  const auto refuse = [&](std::string_view why) {
    invalid_input("{} is \"{}\", {}; write bytes as 1048576, \"64MiB\" or \"1.5GB\"", what,
                  text.substr(0, 60), why);
  };
  const std::size_t length = std::min(text.find_first_not_of("0123456789."), text.size());
  const std::string_view number = text.substr(0, length);
  std::string_view suffix = text.substr(length);
  suffix.remove_prefix(std::min(suffix.find_first_not_of(' '), suffix.size()));

  const Unit* unit = nullptr;
  for (const Unit& known : kUnits)
    if (known.name == suffix) unit = &known;
  if (unit == nullptr && suffix.size() == 1 && kBareUnits.find(suffix[0]) != kBareUnits.npos)
    refuse(fmt::format("whose unit may mean {0}B or {1}iB; say which", suffix == "k" ? "k" : suffix,
                       suffix == "k" ? "K" : suffix));
  if (unit == nullptr) refuse("which is not a number with a known unit");

  const char* const end = number.data() + number.size();
  if (number.find('.') == std::string_view::npos) {
    std::int64_t count = 0;  // integers stay exact
    std::int64_t bytes = 0;
    const auto [stop, error] = std::from_chars(number.data(), end, count);
    if (error == std::errc::invalid_argument) refuse("which is not a number");
    if (error != std::errc{} || __builtin_mul_overflow(count, unit->bytes, &bytes))
      refuse("which is too large");
    return Bytes(bytes);
  }
  double count = 0;
  const auto [stop, error] = std::from_chars(number.data(), end, count, std::chars_format::fixed);
  if (error != std::errc{} || stop != end) refuse("which is not a number");
  const double bytes = count * static_cast<double>(unit->bytes);
  if (bytes >= kTooManyBytes) refuse("which is too large");
  if (unit->bytes == 1 && bytes != std::floor(bytes))
    refuse("which is not a whole number of bytes");
  return Bytes(static_cast<std::int64_t>(bytes));
}

}  // namespace slimpack
