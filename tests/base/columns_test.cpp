#include "slimpack/base/table.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <sstream>
#include <utility>
#include <vector>

namespace slimpack {
namespace {

TEST(Folded, breaks_at_blanks) {
  //            0123456789
  EXPECT_EQ(folded("one two three", 7), "one two\nthree");
  EXPECT_EQ(folded("one two three", 8), "one two\nthree");
  EXPECT_EQ(folded("one two three", 13), "one two three");
}

TEST(Folded, indents_all_lines_but_the_first) {
  EXPECT_EQ(folded("data: one two three", 10, 6), "data: one\n      two\n      three");
}

TEST(Folded, keeps_a_longer_word_on_a_line_of_its_own) {
  EXPECT_EQ(folded("a runs/demo/checkpoints b", 6), "a\nruns/demo/checkpoints\nb");
}

TEST(Folded, counts_characters_and_not_bytes) {
  EXPECT_EQ(folded("µµ µµ", 5), "µµ µµ");  // 5 characters, 9 bytes
}

RC_GTEST_PROP(Folded, loses_no_word_and_keeps_the_width, ()) {
  const auto words = *rc::gen::container<std::vector<std::string>>(
      rc::gen::nonEmpty(rc::gen::container<std::string>(rc::gen::elementOf(std::string("abc")))));
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " ") + word;
  const int columns = *rc::gen::inRange(1, 30);
  const std::string result = folded(text, columns);
  std::istringstream in(result);
  std::vector<std::string> found;
  for (std::string word; in >> word;) found.push_back(word);
  RC_ASSERT(found == words);
  std::istringstream lines(result);
  for (std::string line; std::getline(lines, line);)
    RC_ASSERT(text_width(line) <= static_cast<std::size_t>(columns) ||
              line.find(' ') == std::string::npos);
}

TEST(OutputColumns, are_any_number_where_there_is_no_terminal) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::tmpfile(), &std::fclose);
  ::unsetenv("SLIMPACK_COLUMNS");
  EXPECT_EQ(output_columns(file.get()), kAnyColumns);
}

TEST(OutputColumns, of_a_file_are_those_of_the_environment) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::tmpfile(), &std::fclose);
  for (const auto& [text, columns] : std::vector<std::pair<const char*, int>>{
           {"100", 100}, {"3", 40}, {"0", kAnyColumns}, {"-5", kAnyColumns}, {"x", kAnyColumns}}) {
    ::setenv("SLIMPACK_COLUMNS", text, 1);
    EXPECT_EQ(output_columns(file.get()), columns) << text;
  }
  ::unsetenv("SLIMPACK_COLUMNS");
}

}  // namespace
}  // namespace slimpack
