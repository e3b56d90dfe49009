// Prints what decoder_test.py compares with transformers, one number a line: parameters, those that
// a token uses, and the FLOPs of a sequence's forward, products with weights, attention and
// products with states apart.
#include <exception>

#include "slimpack/base/error.h"
#include "slimpack/cost/cost_model.h"

using namespace slimpack;

int main(int argc, char** argv) {
  try {
    if (argc != 3) invalid_input("usage: decoder_program config.json TOKENS");
    const Decoder shape = read_plannable_model(argv[1]).shape;
    const Tokens tokens(std::stoll(argv[2]));
    const Slice whole{SequenceId(), Tokens(0), tokens};
    Flops linear = head_flops(shape, tokens, Pass::kForward), attention, states;
    const auto layers = shape.count_kinds(0, static_cast<std::size_t>(shape.num_layers()));
    for (std::size_t kind = 0; kind < layers.size(); ++kind) {
      const LayerShape layer = shape.kinds[kind];
      const Tokens window(layer.window);
      const double pairs = layer.window > 0 ? whole.window_pairs(window) : whole.causal_pairs();
      const auto count = static_cast<double>(layers[kind]);
      linear = linear + layer_linear_flops(layer, tokens, Pass::kForward) * count;
      states = states + layer_state_flops(layer, tokens, Pass::kForward) * count;
      attention = attention + layer_attention_flops(layer, pairs, Pass::kForward) * count;
    }
    fmt::print("{}\n{}\n{}\n{}\n{}\n", shape.parameters(), shape.active_parameters(),
               linear.count(), attention.count(), states.count());
    return 0;
  } catch (const std::exception& e) {
    fmt::print(stderr, "{}\n", e.what());
    return 2;
  }
}
