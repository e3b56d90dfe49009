#include <algorithm>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "apps/slimpack/commands.h"
#include "apps/slimpack/output_options.h"
#include "slimpack/base/error.h"
#include "slimpack/base/file.h"
#include "slimpack/base/human.h"
#include "slimpack/base/json_text.h"
#include "slimpack/base/progress.h"
#include "slimpack/base/table.h"
#include "slimpack/data/build.h"
#include "slimpack/data/documents.h"
#include "slimpack/data/indexed_dataset.h"
#include "slimpack/data/lengths.h"

namespace slimpack {

namespace {

constexpr std::size_t kNamedSkips = 5;
constexpr int kBarWidth = 12;

void print_skipped(const std::vector<SkippedPath>& skipped) {
  for (std::size_t i = 0; i < std::min(skipped.size(), kNamedSkips); ++i)
    fmt::print(stderr, "skipped '{}': {}\n", skipped[i].path.string(), skipped[i].reason);
  if (skipped.size() > kNamedSkips)
    fmt::print(stderr, "skipped {} more\n", skipped.size() - kNamedSkips);
}

void build(const FileSearch& search) {
  const FoundFiles found = find_files(search);
  Progress progress(stderr, progress_style(stderr), "reading files",
                    static_cast<std::int64_t>(found.files.size()));
  const BuildReport report = build_byte_dataset(found.files, search.out, progress);
  std::vector<SkippedPath> skipped = found.skipped;
  skipped.insert(skipped.end(), report.skipped.begin(), report.skipped.end());
  print_skipped(skipped);
  const std::string built =
      fmt::format("{} and {}: {}, {} (bytes, and one end of document each)",
                  bin_path(search.out).string(), idx_path(search.out).filename().string(),
                  counted(static_cast<std::int64_t>(report.documents), "document"),
                  counted(report.tokens.count(), "token"));
  fmt::print("{}\n", folded(built, output_columns(stdout)));
  if (report.empty_files > 0)
    fmt::print("{} left out\n",
               counted(static_cast<std::int64_t>(report.empty_files), "empty file"));
  fmt::print("next: slimpack data inspect {}\n", search.out.string());
}

std::string bin_label(const LengthBin& bin) {
  if (bin.high <= Tokens(1)) return std::to_string(bin.low.count());
  return fmt::format("{}–{}", binary_count(bin.low.count()), binary_count(bin.high.count() + 1));
}

/// The three columns of bars share one scale, so that they can be compared. The longest bar is the
/// largest share.
Table histogram_table(const LengthStatistics& s) {
  Table table({{"length"},
               {"documents"},
               {"", Align::kLeft, 2},
               {"tokens"},
               {"", Align::kLeft, 1},
               {"attention"},
               {"", Align::kLeft}});
  const auto document_share = [&](const LengthBin& bin) {
    return static_cast<double>(bin.count) / static_cast<double>(s.count);
  };
  double largest = 0;
  for (const LengthBin& bin : s.histogram)
    largest = std::max({largest, document_share(bin), bin.token_share, bin.attention_share});
  const auto scaled_bar = [&](double share) { return bar(share / largest, kBarWidth); };
  for (const LengthBin& bin : s.histogram)
    table.add_row({bin_label(bin), grouped(bin.count), scaled_bar(document_share(bin)),
                   human_share(bin.token_share), scaled_bar(bin.token_share),
                   human_share(bin.attention_share), scaled_bar(bin.attention_share)});
  return table;
}

/// With a decimal where that says something.
std::string mean_text(double mean) {
  return mean < 1000 ? fmt::format("{:.1f}", mean) : grouped(std::llround(mean));
}

void print_statistics(std::FILE* out, const std::string& name, const LengthStatistics& s) {
  const int columns = output_columns(out);
  fmt::print(out, "{}: {}, {}, mean {}\n\n", name, counted(s.count, "document"),
             counted(s.tokens.count(), "token"), mean_text(s.mean));
  Table percentiles({{"percentile"}, {"p50"}, {"p90"}, {"p95"}, {"p99"}, {"p99.9"}, {"longest"}});
  std::vector<std::string> row{"tokens"};
  for (const Tokens length : {s.p50, s.p90, s.p95, s.p99, s.p999, s.max})
    row.push_back(grouped(length.count()));
  percentiles.add_row(std::move(row));
  fmt::print(out, "{}\n", percentiles.text(columns));

  fmt::print(out, "{}\n", histogram_table(s).text(columns));
  const std::string note = fmt::format(
      "The longest 1% of the documents hold {} of the tokens and {} of the attention work (sum of "
      "squared lengths). K = 1,024; ranges exclude their upper end.",
      human_share(s.longest_token_share), human_share(s.longest_attention_share));
  fmt::print(out, "{}\n", folded(note, columns));
}

/// Says how many tokens the mask counts, and which documents lack a target.
std::string targets_text(const TargetStatistics& targets, Tokens tokens) {
  std::string without = "every document has some";
  if (targets.documents_without == 1)
    without = fmt::format("document {} has none", *targets.first_without);
  else if (targets.documents_without > 1)
    without = fmt::format("{} documents have none, the first is document {}",
                          grouped(targets.documents_without), *targets.first_without);
  const double share = static_cast<double>(targets.targets) /
                       static_cast<double>(std::max<std::int64_t>(tokens.count(), 1));
  return fmt::format("The mask makes {} of the tokens targets ({}); {}.", human_share(share),
                     grouped(targets.targets), without);
}

void inspect(const std::string& prefix, const std::string& lengths_file, const std::string& json) {
  if (prefix.empty() == lengths_file.empty())
    invalid_input(
        "'data inspect' needs either a dataset PREFIX or --lengths FILE, {} given; try "
        "'slimpack data inspect --help'",
        prefix.empty() ? "neither was" : "both were");
  std::optional<Documents> documents;
  if (!prefix.empty()) documents.emplace(Documents::open(prefix));
  const std::vector<Tokens> lengths =
      documents ? documents->dataset().lengths() : read_lengths(lengths_file);
  if (lengths.empty()) invalid_input("dataset '{}' has no documents; build it again", prefix);
  const LengthStatistics statistics = length_statistics(lengths);
  std::optional<TargetStatistics> targets;  // of a dataset with a mask
  if (documents && documents->mask() != nullptr) targets = target_statistics(*documents);
  nlohmann::json figures = to_json(statistics);
  if (targets) {
    figures["targets"] = targets->targets;
    figures["documents_without_targets"] = targets->documents_without;
  }
  if (!json.empty()) write_file(json, json_text(figures, 2) + "\n");
  std::FILE* const out = report_stream({json});
  print_statistics(out, prefix.empty() ? stream_name(lengths_file) : prefix, statistics);
  if (targets)
    fmt::print(out, "{}\n", folded(targets_text(*targets, statistics.tokens), output_columns(out)));
}

/// The text of an option that has no variable.
std::string text_of(const CLI::App* command, const char* option) {
  return command->get_option(option)->as<std::string>();
}

void add_build(CLI::App& data) {
  CLI::App* build_app = data.add_subcommand("build", "Turn a folder of text into a dataset");
  build_app->add_option("--from", "Folder to read, with all folders below it")
      ->type_name("DIR")
      ->required();
  build_app->add_option("--glob", "Pattern of the file names to take")
      ->type_name("PATTERN")
      ->default_str("*");
  build_app->add_option("--out", "Writes PREFIX.bin (tokens) and PREFIX.idx (documents)")
      ->type_name("PREFIX")
      ->required();
  const FileSearch defaults;
  build_app->add_option("--exclude-folder", "Names of folders not to enter (patterns; repeatable)")
      ->type_name("PATTERN")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->default_str(fmt::format("{}", fmt::join(defaults.exclude_folders, " ")));
  build_app->footer(
      "Every file becomes a document; its bytes are the tokens 0 to 255, and 256 ends it. "
      "The files are in Megatron's format, so other tools read them too.\n\n"
      "With a tokenizer, text, JSON lines and Parquet become a dataset of its tokens. Then there "
      "are "
      "also\n"
      "  --tokenizer FILE            tokenizer.json of a Hugging Face model, or the model's "
      "folder\n"
      "  --train-tokenizer SIZE      train one of so many tokens on the documents first\n"
      "  --format, --field NAME      what the inputs are, and the field that holds the text\n"
      "  --append-eod, --eod-token   whether documents end with a token, and which\n"
      "  --chat, --chat-template, --loss-on\n"
      "                              documents are conversations; what the loss counts\n"
      "  --processes N, --restart    how to run\n"
      "and 'slimpack data build --tokenizer FILE --help' explains them.\n\n"
      "Example, from all Python sources of a folder:\n"
      "  slimpack data build --from ~/src --glob '*.py' --out corpus");
  build_app->callback([build_app] {
    FileSearch search;
    search.from = text_of(build_app, "--from");
    search.out = text_of(build_app, "--out");
    if (build_app->count("--glob") > 0) search.glob = text_of(build_app, "--glob");
    if (build_app->count("--exclude-folder") > 0)
      search.exclude_folders = build_app->get_option("--exclude-folder")->results();
    build(search);
  });
}

/// The text of a length list for --lengths.
std::string lengths_text(const std::string& prefix, const std::vector<Tokens>& lengths) {
  std::string text = fmt::format("# tokens of each document of {}\n", prefix);
  for (const Tokens length : lengths)
    if (length > Tokens(0)) text += fmt::format("{}\n", length.count());
  return text;
}

void list_lengths(const std::string& prefix, const std::string& out) {
  const std::string text = lengths_text(prefix, IndexedDataset::open(prefix).lengths());
  if (out.empty())
    fmt::print("{}", text);
  else
    write_file(out, text);
}

void add_lengths(CLI::App& data) {
  CLI::App* lengths_app =
      data.add_subcommand("lengths", "Write how long each document is, one length a line");
  lengths_app->add_option("PREFIX", "Dataset of PREFIX.bin and PREFIX.idx")->required();
  lengths_app->add_option("--out", "Write the list to FILE instead of printing it")
      ->type_name("FILE");
  lengths_app->footer(
      "Empty documents are left out. plan, fit, compare and data inspect take such lists.\n\n"
      "Example:\n"
      "  slimpack data lengths corpus --out lengths.txt\n"
      "  slimpack plan run.toml --lengths lengths.txt --out plan.json");
  lengths_app->callback([lengths_app] {
    const auto out = lengths_app->count("--out") > 0 ? text_of(lengths_app, "--out") : "";
    list_lengths(text_of(lengths_app, "PREFIX"), out);
  });
}

void add_inspect(CLI::App& data) {
  CLI::App* inspect_app =
      data.add_subcommand("inspect", "Show how long documents are, and what the long ones cost");
  inspect_app->add_option("PREFIX", "Dataset of PREFIX.bin and PREFIX.idx");
  inspect_app
      ->add_option("--lengths",
                   "Inspect a list instead: one length in tokens a line; - reads standard input")
      ->type_name("FILE");
  inspect_app
      ->add_option("--json",
                   "Write the same numbers to FILE as JSON; - = to the standard output, and the "
                   "tables to the standard error")
      ->type_name("FILE");
  inspect_app->footer(
      "With --show N and --tokenizer FILE the first N documents are printed as text, and what the "
      "loss counts is marked in it.\n\n"
      "Example:\n  slimpack data inspect corpus --json corpus-lengths.json");
  inspect_app->callback([inspect_app] {
    const auto given = [&](const char* option) {
      return inspect_app->count(option) > 0 ? text_of(inspect_app, option) : std::string();
    };
    inspect(given("PREFIX"), given("--lengths"), given("--json"));
  });
}

}  // namespace

void add_data_command(CLI::App& app) {
  CLI::App* data = app.add_subcommand("data", "Build, inspect and list datasets");
  data->require_subcommand(1);
  data->footer(
      "Example:\n"
      "  slimpack data build --from ~/src --glob '*.py' --out corpus\n"
      "  slimpack data inspect corpus");
  add_build(*data);
  add_inspect(*data);
  add_lengths(*data);
}

}  // namespace slimpack
