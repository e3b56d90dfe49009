"""torch.compile of a stage's layers."""

import torch

# Parts of a layer are compiled again for passes with and without a graph, of one token and of
# several, and for other layouts in memory, but not for every layer or number of tokens.
_VARIANTS = 32


def compile_layers(stage, **options):
    """Compiles each layer of a stage by itself; options are those of torch.compile. Layers with the
    same code share what is compiled, which runs for MicroPacks of any number of tokens.

    Attention, and what it stores of keys and values, is not compiled. So a layer is compiled in
    parts. Layers that keep a graph without elementwise results run as they are.
    """
    config = torch._dynamo.config
    config.allow_unspec_int_on_nn_module = True  # a layer's index is no reason to compile it again
    config.recompile_limit = max(config.recompile_limit, _VARIANTS)
    for layer in stage.own_layers():
        layer.forward.compile(**{"dynamic": True, **options})
