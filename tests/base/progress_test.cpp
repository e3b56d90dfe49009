#include "slimpack/base/progress.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <string>

namespace slimpack {
namespace {

constexpr Nanos kOneSecond(1'000'000'000);

/// A FILE* that writes into memory.
class MemoryFile {
 public:
  MemoryFile() : file_(::open_memstream(&data_, &size_)) {}
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;
  ~MemoryFile() {
    std::fclose(file_);
    std::free(data_);
  }
  [[nodiscard]] std::FILE* file() { return file_; }
  [[nodiscard]] std::string text() {
    std::fflush(file_);
    return {data_, size_};
  }

 private:
  char* data_ = nullptr;
  std::size_t size_ = 0;
  std::FILE* file_;
};

TEST(Progress, in_a_log_writes_a_line_every_five_seconds) {
  MemoryFile out;
  Nanos now(7);
  Progress progress(out.file(), ProgressStyle::kLines, "packing", 1'000, [&] { return now; });
  for (int second = 0; second < 12; ++second) {
    now += kOneSecond;
    progress.advance(20);
  }
  // At 5 s: 100 done, 900 left at 20/s are 45 s. At 10 s: 200 done, 40 s left.
  EXPECT_EQ(out.text(),
            "packing: 100 of 1,000 (10%), 20/s, ETA 45.0 s\n"
            "packing: 200 of 1,000 (20%), 20/s, ETA 40.0 s\n");
}

TEST(Progress, on_a_terminal_redraws_one_line) {
  MemoryFile out;
  Nanos now(0);
  Progress progress(out.file(), ProgressStyle::kRedraw, "packing", 4, [&] { return now; });
  progress.advance();  // at 0 s: too early for a line
  now = kOneSecond;
  progress.advance();
  now = 2 * kOneSecond;
  progress.advance(2);
  progress.finish();
  EXPECT_EQ(out.text(),
            "\rpacking: 2 of 4 (50%), 2.0/s, ETA 1.0 s\x1b[K"
            "\rpacking: 4 of 4 (100%), 2.0/s\x1b[K"
            "\rpacking: 4 in 2.0 s, 2.0/s\x1b[K\n");
}

TEST(Progress, of_an_unknown_total_has_neither_percentage_nor_eta) {
  MemoryFile out;
  Nanos now(0);
  Progress progress(out.file(), ProgressStyle::kLines, "reading", 0, [&] { return now; });
  now = 10 * kOneSecond;
  progress.advance(50'000);
  EXPECT_EQ(out.text(), "reading: 50,000, 5.0 k/s\n");
}

TEST(Progress, of_a_long_first_step_shows_signs_of_life) {
  MemoryFile out;
  Nanos now(0);
  Progress progress(out.file(), ProgressStyle::kLines, "planning", 3, [&] { return now; });
  for (int touches = 0; touches < 12; ++touches) {
    now += kOneSecond;
    progress.touch();
  }
  EXPECT_EQ(out.text(),
            "planning: 0 of 3 (0%), 5.0 s so far\n"
            "planning: 0 of 3 (0%), 10.0 s so far\n");
}

TEST(Progress, of_steps_that_take_seconds_says_how_many) {
  MemoryFile out;
  Nanos now(0);
  Progress progress(out.file(), ProgressStyle::kLines, "planning", 3, [&] { return now; });
  now = 8 * kOneSecond;
  progress.advance(2);
  now = 12 * kOneSecond;
  progress.advance();
  progress.finish();
  // Two in 8 s are 4 s each, and one is left.
  EXPECT_EQ(out.text(),
            "planning: 2 of 3 (67%), 4.0 s each, ETA 4.0 s\n"
            "planning: 3 in 12.0 s, 4.0 s each\n");
}

TEST(Progress, finishes_once) {
  MemoryFile out;
  Progress progress(out.file(), ProgressStyle::kLines, "reading", 1, [] { return Nanos(0); });
  progress.advance();
  progress.finish();
  progress.finish();
  EXPECT_EQ(out.text(), "reading: 1 in 0 ns\n");
}

TEST(Progress, knows_no_eta_below_a_second) {
  MemoryFile out;
  Nanos now(0);
  Progress progress(out.file(), ProgressStyle::kLines, "packing", 100, [&] { return now; });
  now = 12 * kOneSecond;
  progress.advance(99);
  EXPECT_EQ(out.text(), "packing: 99 of 100 (99%), 8.2/s, ETA 1.0 s\n");
}

TEST(Progress, that_is_abandoned_ends_its_line) {
  MemoryFile out;
  {
    Nanos now(0);
    Progress progress(out.file(), ProgressStyle::kRedraw, "reading", 2, [&] { return now; });
    now = kOneSecond;
    progress.advance();
  }
  EXPECT_EQ(out.text().back(), '\n');
}

TEST(Progress, that_is_abandoned_before_its_first_line_writes_nothing) {
  MemoryFile out;
  {
    Progress progress(out.file(), ProgressStyle::kRedraw, "reading", 2, [] { return Nanos(0); });
  }
  EXPECT_EQ(out.text(), "");
}

TEST(ProgressStyle, is_lines_for_a_file_and_redraw_for_a_terminal) {
  std::FILE* file = std::tmpfile();
  ASSERT_NE(file, nullptr);
  EXPECT_EQ(progress_style(file), ProgressStyle::kLines);
  std::fclose(file);
  std::FILE* terminal = std::fopen("/dev/ptmx", "r+");
  if (!terminal) GTEST_SKIP() << "no pseudo-terminals here";
  EXPECT_EQ(progress_style(terminal), ProgressStyle::kRedraw);
  std::fclose(terminal);
}

TEST(MonotonicNow, does_not_go_back) {
  const Nanos first = monotonic_now();
  EXPECT_LE(first, monotonic_now());
}

}  // namespace
}  // namespace slimpack
