#include "slimpack/run/metrics_file.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "slimpack/base/file.h"
#include "tests/support/expect_error.h"
#include "tests/support/temp_folder.h"

namespace slimpack {
namespace {

TEST(MetricsFile, KeepsTheLinesBeforeItsFirstOne) {
  const TempFolder folder;
  const std::filesystem::path file = folder.path() / "metrics.jsonl";
  const std::string kept = "{\"step\": 1}\n{\"step\":2,\"loss\":4}\n";
  // The evaluation after the second step comes behind that step.
  const std::string replaced = "{\"step\":2,\"evaluation_loss\":3}\n{\"step\":3}\n";
  write_file(file, kept + replaced);
  MetricsFile metrics(folder.path());
  EXPECT_EQ(read_file(file, "metrics"), kept + replaced);  // until the first line is there
  metrics.add_line({2, true}, "{\"step\": 2, \"evaluation_loss\": 5}");
  metrics.add_line({3, false}, "{\"step\": 3}");
  EXPECT_EQ(read_file(file, "metrics"),
            kept + "{\"step\": 2, \"evaluation_loss\": 5}\n{\"step\": 3}\n");
}

TEST(MetricsFile, HasTheFiguresOfAnEvaluationAndWhenTheyWereWritten) {
  const TempFolder folder;
  MetricsFile(folder.path() / "new").add(EvaluationFigures{4, {1.5, 2, Tokens(30), Nanos(7)}});
  auto line =
      nlohmann::ordered_json::parse(read_file(folder.path() / "new" / "metrics.jsonl", "metrics"));
  EXPECT_GT(line["unix_ms"], 1'700'000'000'000);
  line.erase("unix_ms");
  EXPECT_EQ(
      line.dump(),
      "{\"step\":4,\"evaluation_loss\":1.5,\"evaluation_documents\":2,\"evaluation_tokens\":30,"
      "\"evaluation_ns\":7}");
}

TEST(EvaluationFigures, NameTheSetAndTellTheLossByLength) {
  EvaluationFigures f{4, {1.5, 2, Tokens(5030), Nanos(7'000'000)}};
  EXPECT_EQ(evaluation_line(f),
            "evaluation after step 4: loss 1.5000 on 5.0 k tok in 2 docs, took 7.0 ms");
  f.result.name = "code";
  f.result.by_length = {{range_of(Tokens(30)), 2.5, 1, Tokens(30)}};
  EXPECT_EQ(evaluation_line(f),
            "evaluation of code after step 4: loss 1.5000 on 5.0 k tok in 2 docs, took 7.0 ms");
  f.result.by_length.push_back({range_of(Tokens(5000)), 1.25, 1, Tokens(5000)});
  EXPECT_EQ(evaluation_line(f),
            "evaluation of code after step 4: loss 1.5000 on 5.0 k tok in 2 docs, took 7.0 ms; by "
            "length: below 1K 2.5000, 4K–16K 1.2500");
  EXPECT_EQ(
      to_json(f).dump(),
      "{\"step\":4,\"evaluation_loss\":1.5,\"evaluation_documents\":2,\"evaluation_tokens\":5030,"
      "\"evaluation_ns\":7000000,\"evaluation_name\":\"code\",\"evaluation_by_length\":["
      "{\"from\":0,\"below\":1024,\"loss\":2.5,\"sequences\":1,\"tokens\":30},"
      "{\"from\":4096,\"below\":16384,\"loss\":1.25,\"sequences\":1,\"tokens\":5000}]}");
}

TEST(MetricsFile, NamesTheRemedyOfItsProgram) {
  const TempFolder folder;
  std::filesystem::create_directory(folder.path() / "metrics.jsonl");
  MetricsFile metrics(folder.path(), "give another folder");
  expect_invalid_input(
      [&] {
        metrics.add_line({1, false}, "{}");
      },
      {"Is a directory; give another folder"});
}

}  // namespace
}  // namespace slimpack
