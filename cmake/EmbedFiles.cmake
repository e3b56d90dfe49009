# A script: writes OUT, a C++ source with the text of every file of NAMES below FOLDER.
#   cmake -DOUT=page_sources.cpp -DFOLDER=… "-DNAMES=page.html,page.css" -P EmbedFiles.cmake
string(REPLACE "," ";" names "${NAMES}")
set(entries "")
foreach(name IN LISTS names)
  file(READ ${FOLDER}/${name} text)
  string(APPEND entries "    {\"${name}\", R\"embedded(${text})embedded\"},\n")
endforeach()
file(WRITE ${OUT} "// Written by cmake/EmbedFiles.cmake.
#include \"slimpack/report/page.h\"

#include <utility>

#include \"slimpack/base/error.h\"

namespace slimpack {

std::string_view page_source(std::string_view name) {
  static constexpr std::pair<std::string_view, std::string_view> kSources[] = {
${entries}  };
  for (const auto& [known, text] : kSources)
    if (known == name) return text;
  SLIMPACK_CHECK(false, \"{} is no part of the page\", name);
}

}  // namespace slimpack
")
