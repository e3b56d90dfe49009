#include "slimpack/cost/prompt_memory.h"

#include <gtest/gtest.h>

#include "tests/cost/shapes.h"
#include "tests/support/expect_error.h"

namespace slimpack {
namespace {

TEST(PromptMemory, CountsWeightsKeysAndAngles) {
  PromptQuestion question{
      .shape = testing::llama2_7b(), .prompt = Tokens(1000), .answer = Tokens(24)};
  const PromptMemory memory = prompt_memory(question);
  EXPECT_EQ(memory.weights, Bytes(2 * question.shape.parameters()));
  // 32 layers, 1,024 tokens, 4,096 numbers each of a key and a value, two bytes a number.
  EXPECT_EQ(memory.cache, Bytes(std::int64_t{32} * 1024 * 2 * 4096 * 2));
  // Heads of 128 numbers: 64 cosines and 64 sines in fp32.
  EXPECT_EQ(memory.angles, Bytes(1024 * 128 * 4));
  EXPECT_EQ(memory.total(), memory.weights + memory.cache + memory.angles + memory.slice);
  // The answer ends where positions do.
  question.answer = Tokens(1 << 30);
  EXPECT_EQ(prompt_memory(question).angles, Bytes(question.shape.max_positions.count() * 128 * 4));
}

TEST(PromptMemory, OfASliceDoesNotGrowWithThePromptButByATile) {
  PromptQuestion question{.shape = testing::llama2_7b(), .prompt = Tokens(1024), .answer = {}};
  const Bytes alone = prompt_memory(question).slice;
  question.prompt = Tokens(4096);
  const Bytes later = prompt_memory(question).slice;
  question.slice = Tokens(2048);
  const Bytes larger = prompt_memory(question).slice;
  EXPECT_LE(alone, later);
  EXPECT_LT(later, alone * 2);
  EXPECT_LT(later, larger);
}

TEST(PromptMemory, RefusesWhatNoModelAnswers) {
  const PromptQuestion sound{.shape = testing::llama2_7b(), .prompt = Tokens(10), .answer = {}};
  const auto asked = [&](auto change) {
    return [=] {
      PromptQuestion question = sound;
      change(question);
      static_cast<void>(prompt_memory(question));
    };
  };
  expect_invalid_input(asked([](PromptQuestion& q) { q.prompt = Tokens(0); }),
                       {"0 tokens", "1 or more"});
  expect_invalid_input(asked([](PromptQuestion& q) { q.prompt = Tokens(4097); }),
                       {"4,097", "4,096"});
  expect_invalid_input(asked([](PromptQuestion& q) { q.answer = Tokens(-1); }),
                       {"max-new-tokens is -1"});
  expect_invalid_input(asked([](PromptQuestion& q) { q.slice = Tokens(0); }),
                       {"prefill-slice is 0"});
}

}  // namespace
}  // namespace slimpack
