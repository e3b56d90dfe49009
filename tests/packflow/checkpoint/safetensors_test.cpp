#include "slimpack/packflow/checkpoint/safetensors.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <string_view>
#include <utility>

#include "tests/support/expect_error.h"
#include "tests/support/temp_folder.h"

namespace slimpack {
namespace {

/// The format by hand: u64 header length, header, data.
std::string file_of(std::string_view header, std::string_view data) {
  std::uint64_t size = header.size();
  std::string bytes(8, '\0');
  std::memcpy(bytes.data(), &size, 8);
  return bytes + std::string(header) + std::string(data);
}

TEST(Safetensors, RoundTripsEveryTypeAndShape) {
  const TempFolder folder;
  const NamedTensors tensors{
      {"a.double", at::arange(6, at::kDouble).view({2, 3})},
      {"b.float", at::randn({3, 1, 2}, at::kFloat)},
      {"c.bf16", at::randn({5}, at::kFloat).to(at::kBFloat16)},  // 10 bytes: the next is unaligned
      {"d.int64", at::arange(-2, 3, at::kLong)},
      {"d.half", at::randn({3}, at::kFloat).to(at::kHalf)},
      {"e.scalar", at::full({}, 3.5, at::kDouble)},
      {"f.empty", at::zeros({0, 4}, at::kFloat)},
      {"g.transposed", at::arange(6, at::kFloat).view({2, 3}).t()},
      {"a \"quoted\" näme", at::ones({1}, at::kFloat)}};
  write_safetensors(folder / "t.safetensors", tensors);
  const NamedTensors read = read_safetensors(folder / "t.safetensors");
  ASSERT_EQ(read.size(), tensors.size());
  for (const auto& [name, tensor] : tensors) {
    ASSERT_TRUE(read.contains(name)) << name;
    EXPECT_EQ(read.at(name).scalar_type(), tensor.scalar_type()) << name;
    EXPECT_TRUE(read.at(name).equal(tensor)) << name;
    EXPECT_TRUE(read.at(name).is_contiguous()) << name;
  }
}

TEST(Safetensors, EqualTensorsGiveEqualFilesAndDataStartsAtAMultipleOfEight) {
  const TempFolder folder;
  const NamedTensors tensors{{"w", at::ones({3}, at::kFloat)}};
  write_safetensors(folder / "a", tensors);
  write_safetensors(folder / "b", tensors);
  EXPECT_EQ(get_file(folder / "a"), get_file(folder / "b"));
  EXPECT_EQ((get_file(folder / "a").size() - 12) % 8, 0u);
}

TEST(Safetensors, ReadsAFileWrittenByHand) {
  const TempFolder folder;
  // 1.0f and -2.0f, little-endian; the second tensor of the header comes first in the file.
  const std::string data("\0\0\x80\x3f\0\0\0\xc0", 8);
  put_file(folder / "f", file_of(R"({"b":{"dtype":"F32","shape":[1],"data_offsets":[4,8]},)"
                                 R"("__metadata__":{"format":"pt"},)"
                                 R"("a":{"dtype":"F32","shape":[],"data_offsets":[0,4]}}   )",
                                 data));
  const NamedTensors read = read_safetensors(folder / "f");
  ASSERT_EQ(read.size(), 2u);
  EXPECT_EQ(read.at("a").item<float>(), 1.0f);
  EXPECT_EQ(read.at("b")[0].item<float>(), -2.0f);
}

struct Corruption {
  const char* what;
  std::string header;
  std::size_t data_bytes;
  const char* message;
};

std::vector<Corruption> corruptions() {
  const auto one = [](const std::string& entry) { return R"({"w":)" + entry + "}"; };
  const auto two = [](const std::string& a, const std::string& b) {
    return R"({"a":{"dtype":"F32","shape":[2],"data_offsets":)" + a +
           R"(},"b":{"dtype":"F32","shape":[2],"data_offsets":)" + b + "}}";
  };
  return {
      {"no JSON", "{", 0, "JSON"},
      {"an array", "[]", 0, "object"},
      {"an entry that is no object", one("3"), 0, "object"},
      {"no dtype", one(R"({"shape":[1],"data_offsets":[0,4]})"), 4, "dtype"},
      {"a number as dtype", one(R"({"dtype":3,"shape":[1],"data_offsets":[0,4]})"), 4, "dtype"},
      {"an unknown dtype", one(R"({"dtype":"F8","shape":[4],"data_offsets":[0,4]})"), 4, "\"F8\""},
      {"no shape", one(R"({"dtype":"F32","data_offsets":[0,4]})"), 4, "shape"},
      {"a shape that is no array", one(R"({"dtype":"F32","shape":1,"data_offsets":[0,4]})"), 4,
       "shape"},
      {"a negative size", one(R"({"dtype":"F32","shape":[-1],"data_offsets":[0,4]})"), 4, "shape"},
      {"a fractional size", one(R"({"dtype":"F32","shape":[1.5],"data_offsets":[0,4]})"), 4,
       "shape"},
      {"elements beyond 64 bits",
       one(R"({"dtype":"F32","shape":[1099511627776,1099511627776],"data_offsets":[0,0]})"), 0,
       "too many"},
      // 2^40 · 2^22 = 2^62 elements of 8 bytes are 2^65 bytes, which is 0 modulo 2^64.
      {"bytes beyond 64 bits",
       one(R"({"dtype":"F64","shape":[1099511627776,4194304],"data_offsets":[0,0]})"), 0,
       "too many"},
      {"no offsets", one(R"({"dtype":"F32","shape":[1]})"), 4, "data_offsets"},
      {"one offset", one(R"({"dtype":"F32","shape":[1],"data_offsets":[0]})"), 4, "data_offsets"},
      {"three offsets", one(R"({"dtype":"F32","shape":[1],"data_offsets":[0,4,8]})"), 8,
       "data_offsets"},
      {"a negative offset", one(R"({"dtype":"F32","shape":[1],"data_offsets":[-4,0]})"), 4,
       "begin"},
      {"an end before the begin", one(R"({"dtype":"F32","shape":[1],"data_offsets":[4,0]})"), 4,
       "end"},
      {"an end beyond the file", one(R"({"dtype":"F32","shape":[2],"data_offsets":[0,8]})"), 4,
       "end"},
      {"a text as offset", one(R"({"dtype":"F32","shape":[1],"data_offsets":["0",4]})"), 4,
       "begin"},
      {"a huge offset",
       one(R"({"dtype":"F32","shape":[1],"data_offsets":[0,18446744073709551615]})"), 4, "end"},
      {"fewer bytes than the shape", one(R"({"dtype":"F32","shape":[2],"data_offsets":[0,4]})"), 4,
       "match"},
      {"more bytes than the shape", one(R"({"dtype":"F32","shape":[1],"data_offsets":[0,8]})"), 8,
       "match"},
      {"a gap at the start", one(R"({"dtype":"F32","shape":[1],"data_offsets":[4,8]})"), 8,
       "belong"},
      {"bytes after the end", one(R"({"dtype":"F32","shape":[1],"data_offsets":[0,4]})"), 8,
       "follow"},
      {"bytes without a tensor", "{}", 4, "follow"},
      {"a gap between", two("[0,8]", "[12,20]"), 20, "belong"},
      {"an overlap", two("[0,8]", "[4,12]"), 12, "belong"},
      {"the same bytes twice", two("[0,8]", "[0,8]"), 8, "shares"},
  };
}

TEST(Safetensors, RefusesEveryCorruptHeaderInOneLineThatNamesTheFile) {
  const TempFolder folder;
  for (const Corruption& c : corruptions()) {
    SCOPED_TRACE(c.what);
    put_file(folder / "bad.safetensors", file_of(c.header, std::string(c.data_bytes, '\0')));
    expect_invalid_input([&] { static_cast<void>(read_safetensors(folder / "bad.safetensors")); },
                         {"bad.safetensors", c.message});
  }
}

TEST(Safetensors, RefusesFilesThatAreTooShortForTheirHeader) {
  const TempFolder folder;
  const auto refuse = [&](const std::string& bytes, std::string_view message) {
    put_file(folder / "bad", bytes);
    expect_invalid_input([&] { static_cast<void>(read_safetensors(folder / "bad")); },
                         {"bad", message});
  };
  refuse("", "shorter");
  refuse("1234567", "shorter");
  std::string file = file_of("{}", "");
  refuse(file.substr(0, 9), "header length 2");
  file[7] = '\x7f';  // 2^62 and more: must not wrap around
  refuse(file, "exceeds");
  file.assign(8, '\xff');
  refuse(file, "exceeds");
  expect_invalid_input([&] { static_cast<void>(read_safetensors(folder / "none")); }, {"none"});
}

TEST(Safetensors, SaysWhatStandsInThePlaceOfWeights) {
  const TempFolder folder;
  const std::pair<std::string, std::string_view> kForeign[] = {
      {"version https://git-lfs.github.com/spec/v1\noid sha256:ab\nsize 12\n", "git lfs pull"},
      {"<html>not found</html>", "web page"},
      {"\n\n  <!DOCTYPE html>\n<title>Sign in</title>", "web page"},
      {"Entry not found", "text that begins with \"Entry not found\""},
      {"{\"error\": \"Repository not found\"}", "text that begins with"},
      {std::string(4096, '\0'), "zeros"},
      {std::string("PK\x03\x04", 4) + std::string(100, 'x'), "save_pretrained"},
      {"\x80\x02}q\x01X" + std::string(100, 'x'), "pickle"},
      {std::string("GGUF\x03\0\0\0", 8), "GGUF"},
      {"\x1f\x8b\x08" + std::string(100, 'x'), "gzip"},
  };
  for (const auto& [bytes, message] : kForeign) {
    put_file(folder / "model.safetensors", bytes);
    expect_invalid_input([&] { static_cast<void>(read_safetensors(folder / "model.safetensors")); },
                         {"model.safetensors: ", message});
  }
}

TEST(Safetensors, ACutOrLongerFileIsToBeDownloadedAgain) {
  const TempFolder folder;
  write_safetensors(folder / "good", {{"a", at::ones({64}, at::kFloat)}});
  const std::string good = get_file(folder / "good");
  const auto refuse = [&](const std::string& bytes, std::string_view rule) {
    put_file(folder / "bad", bytes);
    expect_invalid_input([&] { static_cast<void>(read_safetensors(folder / "bad")); },
                         {"bad", rule, "download"});
  };
  refuse(good.substr(0, good.size() - 100),
         "its end is byte 256 of the data, of which the file has 156");
  refuse(good.substr(0, 20), "exceeds the file of 20 bytes");
  refuse(good.substr(0, 5), "shorter");
  refuse(good + std::string(64, '\0'), "64 bytes follow");
}

TEST(Safetensors, NumbersThatAreNotFiniteAreFoundInEveryType) {
  const TempFolder folder;
  for (const auto type : {at::kDouble, at::kFloat, at::kHalf, at::kBFloat16})
    for (const double bad :
         {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity(),
          -std::numeric_limits<double>::infinity()}) {
      NamedTensors tensors{{"a", at::ones({3, 5}, type)},
                           {"b", at::zeros({2, 4}, type)},
                           {"empty", at::zeros({0}, type)},
                           {"ids", at::ones({2}, at::kLong)}};
      write_safetensors(folder / "t", tensors);
      require_finite_file(folder / "t");
      tensors.at("b")[1][2] = bad;
      write_safetensors(folder / "t", tensors);
      expect_invalid_input([&] { require_finite_file(folder / "t"); }, {"/t'", "tensor b holds"});
    }
}

TEST(Safetensors, EveryTruncationOfAGoodFileIsRefused) {
  const TempFolder folder;
  write_safetensors(folder / "good",
                    {{"a", at::ones({2}, at::kFloat)}, {"b", at::ones({1}, at::kLong)}});
  const std::string good = get_file(folder / "good");
  for (std::size_t size = 0; size < good.size(); ++size) {
    put_file(folder / "cut", good.substr(0, size));
    expect_invalid_input([&] { static_cast<void>(read_safetensors(folder / "cut")); }, {"cut"});
  }
}

}  // namespace
}  // namespace slimpack
