// Reads a config.json and prints what the tests in hugging_face_test.py compare with
// transformers: the parameter count on the first line, then the config.json written back.
#include <exception>

#include "slimpack/base/error.h"
#include "slimpack/spec/decoder.h"

int main(int argc, char** argv) {
  try {
    if (argc != 3) slimpack::invalid_input("usage: shape_program config.json DTYPE");
    const slimpack::Decoder shape = slimpack::read_decoder(argv[1]);
    fmt::print("{}\n{}", shape.parameters(), slimpack::decoder_to_json(shape, argv[2]));
    return 0;
  } catch (const slimpack::InvalidInput& e) {
    fmt::print(stderr, "{}\n", e.what());
    return 2;
  }
}
