#include "slimpack/base/json_fields.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "tests/support/expect_error.h"

namespace slimpack {
namespace {

using nlohmann::json;

TEST(ParseJson, names_origin_and_place_of_an_error) {
  // The text ends where a value is due: after the 6 bytes of {"a": .
  expect_invalid_input([] { (void)parse_json("{\"a\":", "plan.json"); },
                       {"plan.json", "not valid JSON", "byte 6"});
}

TEST(ParseJson, refuses_values_that_are_nested_too_deep_to_be_printed) {
  const auto nested = [](std::size_t depth) {
    return std::string(depth, '[') + std::string(depth, ']');
  };
  EXPECT_EQ(parse_json(nested(100), "f").dump(), nested(100));
  expect_invalid_input([&] { (void)parse_json(nested(101), "f"); },
                       {"f: ", "100 deep at byte 100"});
  expect_invalid_input([&] { (void)parse_json(R"({"version": )" + nested(1'000'000) + "}", "f"); },
                       {"100 deep"});
}

TEST(ParseJson, counts_no_brackets_in_texts) {
  // The text of the value ends with the third quote: the second is escaped, and so is its
  // backslash.
  const std::string text = R"(["\\\"[[)" + std::string(200, '{') + R"(\\"])";
  EXPECT_EQ(parse_json(text, "f").at(0).get<std::string>().size(), 2 + 2 + 200 + 1U);
}

TEST(ParsePythonJson, keeps_floats_that_json_has_no_words_for_as_transformers_writes_them) {
  const json object = parse_python_json(
      R"({"a": [0.0, Infinity], "b": -Infinity, "c": NaN, "say \"NaN": "\\", "d": "-Infinity"})",
      "f");
  const auto tagged = [](const char* word) { return json{{"__float__", word}}; };
  EXPECT_EQ(object, (json{{"a", json::array({0.0, tagged("Infinity")})},
                          {"b", tagged("-Infinity")},
                          {"c", tagged("NaN")},
                          {"say \"NaN", "\\"},
                          {"d", "-Infinity"}}));
  // Whoever asks for one of them as a number learns that it is none.
  expect_invalid_input([&] { (void)JsonFields(object, "f").number("c"); }, {"f", "c", "number"});
  for (const char* text : {R"({"a": Infinit})", R"({"a": NaNs})", R"({"a": -})"})
    expect_invalid_input([&] { (void)parse_python_json(text, "f"); }, {"f: not valid JSON"});
}

TEST(JsonFields, must_be_an_object) {
  const json array = json::array({1});
  expect_invalid_input([&] { JsonFields(array, "plan.json"); },
                       {"plan.json", "expected a JSON object, found array"});
}

TEST(JsonFields, give_values_of_the_right_type) {
  const json object = {{"i", -3},  {"n", 1.5},    {"b", true},
                       {"t", "x"}, {"a", {1, 2}}, {"z", nullptr}};
  const JsonFields fields(object, "f");
  EXPECT_EQ(fields.integer("i"), -3);
  EXPECT_EQ(fields.number("n"), 1.5);
  EXPECT_EQ(fields.number("i"), -3.0);
  EXPECT_TRUE(fields.boolean("b"));
  EXPECT_EQ(fields.text("t"), "x");
  EXPECT_EQ(fields.array("a").size(), 2u);
  EXPECT_TRUE(fields.has("i"));
  EXPECT_FALSE(fields.has("z"));
  EXPECT_FALSE(fields.has("missing"));
}

TEST(JsonFields, name_a_missing_field) {
  const json object = json::object();
  const JsonFields fields(object, "plan.json");
  expect_invalid_input([&] { (void)fields.integer("ranks"); },
                       {"plan.json", "\"ranks\"", "missing"});
}

TEST(JsonFields, refuse_values_of_another_type) {
  const json object = {{"v", "text"}, {"f", 1.5}, {"n", nullptr}};
  const JsonFields fields(object, "p");
  expect_invalid_input([&] { (void)fields.integer("v"); }, {"\"v\"", "integer", "\"text\""});
  expect_invalid_input([&] { (void)fields.integer("f"); }, {"\"f\"", "integer", "1.5"});
  expect_invalid_input([&] { (void)fields.number("v"); }, {"\"v\"", "number"});
  expect_invalid_input([&] { (void)fields.boolean("f"); }, {"\"f\"", "true or false"});
  expect_invalid_input([&] { (void)fields.text("f"); }, {"\"f\"", "string"});
  expect_invalid_input([&] { (void)fields.array("f"); }, {"\"f\"", "array"});
  expect_invalid_input([&] { (void)fields.object("f"); }, {"p: f", "object"});
  expect_invalid_input([&] { (void)fields.text("n"); }, {"\"n\"", "null"});
}

TEST(JsonFields, refuse_numbers_that_overflow) {
  // 2^63 fits into 64 bits unsigned, but not into int64; 1e400 is no finite double.
  const json object = parse_json(R"({"i": 9223372036854775808})", "p");
  const JsonFields fields(object, "p");
  expect_invalid_input([&] { (void)fields.integer("i"); }, {"9223372036854775808"});
  json infinite = {{"n", std::numeric_limits<double>::infinity()}};
  expect_invalid_input([&] { (void)JsonFields(infinite, "p").number("n"); }, {"finite"});
}

TEST(JsonFields, name_the_allowed_range) {
  const json object = {{"stages", 9}};
  const JsonFields fields(object, "p");
  EXPECT_EQ(fields.integer("stages", 1, 9), 9);
  EXPECT_EQ(fields.integer("stages", 9, 12), 9);
  expect_invalid_input([&] { (void)fields.integer("stages", 1, 8); },
                       {"\"stages\"", "is 9", "1 to 8"});
  expect_invalid_input([&] { (void)fields.integer("stages", 10); }, {"is 9", "10 to"});
}

TEST(JsonFields, carry_the_path_of_a_nested_object) {
  const json object = {{"model", {{"layers", "many"}}}};
  const JsonFields fields(object, "run.json");
  expect_invalid_input([&] { (void)fields.object("model").integer("layers"); },
                       {"run.json: model", "\"layers\""});
}

TEST(JsonFields, check_format_and_version) {
  const json object = {{"format", "slimpack-plan"}, {"version", 1}};
  const JsonFields fields(object, "plan.json");
  EXPECT_NO_THROW(fields.require_format("slimpack-plan", 1));
  expect_invalid_input([&] { fields.require_format("slimpack-timeline", 1); },
                       {"slimpack-plan", "slimpack-timeline"});
  expect_invalid_input([&] { fields.require_format("slimpack-plan", 2); },
                       {"version 1", "version 2"});
}

RC_GTEST_PROP(ParseJson, never_fails_in_another_way, (const std::string& text)) {
  try {
    (void)parse_json(text, "fuzz");
  } catch (const InvalidInput&) {
    RC_SUCCEED("refused");
  }
}

}  // namespace
}  // namespace slimpack
