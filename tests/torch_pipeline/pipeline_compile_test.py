"""Compiled layers: the gradients of plain training, without compiling for every layer or pack."""

import copy

import pytest
import torch
from families import config_of, model_of
from slimpack.torch.pipeline import compile_layers
from slimpack.torch.pipeline.comparison import largest_difference, plain_step
from slimpack.torch.pipeline.local import LocalEngine, stages_of
from trial import random_case

FP32 = 1e-5


def trained(config, seeds, **settings):
    """(relative difference of gradients from plain training, by step how many graphs were
    compiled)."""
    graphs, counts = [], []

    def count(graph, inputs):
        graphs.append(graph)
        return graph.forward

    model = model_of(config, 1, torch.float32)
    layers = config.num_hidden_layers
    engine = LocalEngine(stages_of(lambda: copy.deepcopy(model), [0, layers]))
    torch._dynamo.reset()
    compile_layers(engine.stages[0], backend=count)
    for seed in seeds:
        before = len(graphs)
        plan, documents = random_case(seed, layers=layers, stages=1, replicas=1, **settings)
        engine.step(plan, documents)
        plain_step(model, documents)
        counts.append(len(graphs) - before)
    return largest_difference(model, engine.stages)[0], counts


@pytest.mark.whole
def test_compiled_layers_have_the_gradients_of_plain_training_and_share_what_is_compiled():
    difference, counts = trained(config_of("llama", num_hidden_layers=2), range(5), kind="sliced",
                                 recompute="full")
    assert difference <= FP32
    assert sum(counts[3:]) == 0, counts


@pytest.mark.whole
def test_compiled_layers_that_run_again_for_a_kept_graph_have_the_gradients_of_plain_training():
    difference, _ = trained(config_of("llama", num_hidden_layers=2), range(2), kind="symmetric",
                            recompute=["nothing", "elementwise"])
    assert difference <= FP32
