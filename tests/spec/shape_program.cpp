// Reads a config.json and prints what the tests in hugging_face_test.py compare with
// transformers: the parameter count on the first line, then the config.json written back.
#include <exception>

#include "slimpack/base/error.h"
#include "slimpack/spec/model_shape.h"

int main(int argc, char** argv) {
  try {
    if (argc != 3) slimpack::invalid_input("usage: shape_program config.json DTYPE");
    const slimpack::ModelShape shape = slimpack::read_model_shape(argv[1]);
    fmt::print("{}\n{}", shape.parameters(), slimpack::model_shape_to_json(shape, argv[2]));
    return 0;
  } catch (const slimpack::InvalidInput& e) {
    fmt::print(stderr, "{}\n", e.what());
    return 2;
  }
}
