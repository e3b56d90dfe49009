"""The load-balancing loss of experts, against transformers' own function on whole documents."""

import pipeline_worker
import pytest
import torch
from families import config_of, model_of
from ranks import run
from slimpack.torch.pipeline.comparison import (
    Fp64Casts,
    largest_difference,
    largest_of,
    plain_step,
)
from transformers.models.mixtral.modeling_mixtral import load_balancing_loss_func
from trial import BOUND, random_case, run_locally, tensors_of

ASKS = dict(output_router_logits=True, router_aux_loss_coef=0.3)


def router_logits(model, documents):
    """[layer][document]: [tokens, experts], with their graphs."""
    outputs = [model(input_ids=tokens[None], output_router_logits=True, use_cache=False)
               for tokens in documents]
    return list(zip(*(output.router_logits for output in outputs), strict=True))


def add_loss_of_whole_step(model, documents):
    """Adds the loss that the documents have as one batch."""
    of_layers = tuple(torch.cat(of_layer) for of_layer in router_logits(model, documents))
    loss = 0.3 * load_balancing_loss_func(of_layers, model.num_experts, model.num_experts_per_tok)
    loss.backward()
    return loss.item()


def add_loss_of_micro_packs(model, documents, plan):
    """Adds the loss of each backward MicroPack on each stage by itself, weighted by its share of
    all rows."""
    of_layers = router_logits(model, documents)
    rows = sum(map(len, documents)) * len(of_layers)
    total = 0.0
    for replica in plan.replicas:
        for pack in replica.backward:
            for first, end in zip(plan.layer_begin, plan.layer_begin[1:], strict=False):
                logits = tuple(torch.cat([of_layer[s][a:b] for s, a, b in
                                          zip(pack.sequences, pack.begin, pack.end, strict=True)])
                               for of_layer in of_layers[first:end])
                share = sum(map(len, logits)) / rows
                total = total + 0.3 * share * load_balancing_loss_func(
                    logits, model.num_experts, model.num_experts_per_tok)
    total.backward()
    return total.item()


@pytest.mark.parametrize("family", ["mixtral", "gpt_oss"])
@pytest.mark.parametrize("mode", ["step", "micropack"])
@pytest.mark.parametrize("recompute", ["full", "nothing", "elementwise"])
@pytest.mark.parametrize("seed", range(2))
def test_the_loss_and_its_gradients_are_those_of_plain_training(family, mode, recompute, seed):
    model = model_of(config_of(family, **ASKS), seed)
    kind = "sliced" if recompute == "full" else "symmetric"
    plan, documents = random_case(seed, kind=kind, recompute=recompute, stages=2, replicas=2)
    engine, (loss, balance_loss) = run_locally(model, plan, documents, load_balancing=mode)
    with Fp64Casts():
        expected = plain_step(model, documents)
        expected_balance = (add_loss_of_whole_step(model, documents) if mode == "step" else
                            add_loss_of_micro_packs(model, documents, plan))
    assert loss == pytest.approx(expected, rel=BOUND)
    assert balance_loss == pytest.approx(expected_balance, rel=BOUND)
    difference, name = largest_difference(model, engine.stages)
    assert difference <= BOUND, f"{name}: {difference:.2e}"


@pytest.mark.parametrize("mode", ["step", "micropack"])
@pytest.mark.parametrize("recompute", ["full", "nothing"])
def test_ranks_of_two_stages_and_replicas_balance_experts_together(mode, recompute):
    settings = dict(kind="sliced" if recompute == "full" else "symmetric", recompute=recompute,
                    stages=2, replicas=2)
    said = run(4, pipeline_worker.balanced_step, "mixtral", 1, settings, mode, ASKS)
    model, (plan, documents) = model_of(config_of("mixtral", **ASKS), 1), random_case(1, **settings)
    with Fp64Casts():
        expected = plain_step(model, documents)
        expected_balance = (add_loss_of_whole_step(model, documents) if mode == "step" else
                            add_loss_of_micro_packs(model, documents, plan))
    for loss, balance_loss, _ in said:
        assert loss == pytest.approx(expected, rel=BOUND)
        assert balance_loss == pytest.approx(expected_balance, rel=BOUND)
    difference, name = largest_of(model, tensors_of([of_rank[-1] for of_rank in said]))
    assert difference <= BOUND, f"{name}: {difference:.2e}"


def test_a_model_that_does_not_ask_has_no_such_loss():
    plan, documents = random_case(0, stages=2)
    _, (_, balance_loss) = run_locally(model_of(config_of("mixtral"), 0), plan, documents)
    assert balance_loss == 0.0
