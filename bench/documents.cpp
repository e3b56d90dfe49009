#include "bench/documents.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "bench/command.h"
#include "slimpack/base/error.h"
#include "slimpack/base/file.h"

namespace slimpack {
namespace {

/// Python's own shuffle: another language's would choose other documents.
constexpr const char* kListFiles = R"(import pathlib, random, sysconfig
root = pathlib.Path(sysconfig.get_paths()['stdlib'])
files = sorted(p for p in root.rglob('*.py') if 'site-packages' not in p.parts)
random.Random({}).shuffle(files)
print('\n'.join(str(p) for p in files[:2000])))";

}  // namespace

std::vector<std::vector<std::int64_t>> standard_library_documents(Tokens context,
                                                                  Tokens step_tokens,
                                                                  std::int64_t seed) {
  const std::string script = fmt::format(kListFiles, seed);
  std::vector<std::vector<std::int64_t>> documents;
  Tokens total{0};
  for (const std::string& path : lines_of(fmt::format("python3 -c \"{}\"", script))) {
    if (total >= step_tokens) break;
    const std::string text = read_file(path, "document");
    if (text.size() < 2) continue;
    const auto size = std::min<std::size_t>(text.size(), static_cast<std::size_t>(context.count()));
    auto& document = documents.emplace_back();
    for (std::size_t i = 0; i < size; ++i) document.push_back(static_cast<unsigned char>(text[i]));
    total += Tokens(static_cast<std::int64_t>(size));
  }
  if (total < step_tokens)
    invalid_input(
        "python3 gave {} tokens of source files, {} are needed; check that 'python3' runs",
        total.count(), step_tokens.count());
  return documents;
}

}  // namespace slimpack
