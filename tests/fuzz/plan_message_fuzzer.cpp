// Messages between processes of a job, and the plan that the first one hands over. Inputs are tried
// as they stand and as the text in a message, which is compressed and has a checksum that no
// mutation finds.

#include <string>

#include "slimpack/base/compressed_text.h"
#include "slimpack/training/process_message.h"
#include "tests/fuzz/fuzz_input.h"

using namespace slimpack;

namespace {

void read_plan(std::string_view bytes) {
  const auto handed =
      fuzz::accepted([&] { return plan_from_message(bytes, "the plan of rank 0"); });
  if (!handed) return;
  fuzz::require(
      plan_from_message(plan_message(handed->plan, handed->lowered), "written") == *handed,
      "a plan reads as it is handed over");
}

void read_message(std::string_view bytes) {
  const auto message =
      fuzz::accepted([&] { return process_message_from_bytes(bytes, "message of rank 1"); });
  if (!message) return;
  fuzz::require(to_bytes(*message) == bytes, "a message is written as it was read");
  read_plan(message->content);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes = fuzz::text_of(data, size);
  read_message(bytes);
  const auto text = fuzz::accepted([&] { return decompressed(bytes, "compressed text"); });
  if (text)
    fuzz::require(decompressed(compressed(*text), "written") == *text,
                  "a text is the same when it was compressed");
  read_plan(compressed(bytes));
  return 0;
}
