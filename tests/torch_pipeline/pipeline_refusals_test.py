"""The runtime refuses by name what it does not train, before any weight is loaded."""

import json
import random
import re

import pytest
import torch
import pipeline_worker
from families import config_of, model_of
from ranks import outcomes, run
from slimpack import InvalidInput, Job, StepPlan
from slimpack.torch.pipeline import LocalEngine, Stage
from slimpack.torch.pipeline.local import stages_of
from slimpack.torch.pipeline.packs import stage_plan
from slimpack.torch.pipeline.random_plan import random_plan
from slimpack.torch.pipeline.replication import Sharded, replication_of
from torch.distributed.fsdp import FSDPModule
from transformers import AutoConfig, AutoModelForCausalLM

TINY = dict(vocab_size=61, hidden_size=16, num_hidden_layers=2, num_attention_heads=2,
            intermediate_size=24)


def refused(config):
    """The line that refuses a model of this configuration."""
    with pytest.raises(InvalidInput) as raised:
        Stage.from_model(AutoModelForCausalLM.from_config(config), [0, 1, 2], 0, check=False)
    assert "\n" not in str(raised.value)
    return str(raised.value)


@pytest.mark.parametrize(("family", "settings", "reason"), [
    ("gpt2", {}, r"resid_pdrop is 0.1, must be 0"),
    ("mixtral", dict(router_jitter_noise=0.1), r"router_jitter_noise is 0.1"),
    ("llama", dict(rope_parameters=dict(rope_type="dynamic", rope_theta=1e4, factor=2.0)),
     r"rope_type is \"dynamic\""),
    ("xlstm", dict(hidden_size=64, num_heads=4, num_blocks=2), r"the states of xlstm: .* a cache of its own"),
    ("openai-gpt", dict(attn_pdrop=0.0, embd_pdrop=0.0, resid_pdrop=0.0),
     r"cannot run on slices: its attention does not go through transformers' interface"),
])
def test_models_that_slices_cannot_train_are_refused(family, settings, reason):
    assert re.search(reason, refused(AutoConfig.for_model(family, **{**TINY, **settings})))


def test_a_model_is_refused_before_its_weights_are_read(tmp_path):
    config = AutoConfig.for_model("openai-gpt", **TINY, attn_pdrop=0.0, embd_pdrop=0.0, resid_pdrop=0.0)
    config.save_pretrained(tmp_path)
    (tmp_path / "model.safetensors").write_bytes(b"no weights")
    with pytest.raises(InvalidInput, match="cannot run on slices: its attention"):
        Stage.from_pretrained(tmp_path, [0, 1, 2], 0, dtype=torch.float32)


@pytest.mark.parametrize(("layer_begin", "index", "reason"), [
    ([0, 2, 3], 0, r"layer_begin is \[0, 2, 3\], must rise from 0 to the model's 4 layers"),
    ([0, 2, 2, 4], 0, r"must rise"),
    ([0, 2, 4], 2, r"stage 2 of 2 does not exist"),
])
def test_impossible_stages_are_refused(layer_begin, index, reason):
    with pytest.raises(InvalidInput, match=reason):
        Stage.from_model(model_of(config_of("llama"), 1), layer_begin, index)


def plan_of(parallel, **options):
    options = dict(memory_cap="none", granularity=1024, recompute="full") | options
    return Job("llama-3-8b", parallel, "h100", **options).plan([8192, 1000, 1000])


PLANS = {
    "merged": (lambda: plan_of({"pp": 2, "dp": 2}, most_merged=2, memory_cap="none"),
               r"is shared by 2 replicas.*most_merged=1"),
    "tensor": (lambda: plan_of({"pp": 2, "tp": 2}), r"the plan is for tp = 2, .*plan with tp = 1"),
    "split": (lambda: split_plan(), r"action \dI\d of replica 0 splits a backward pass"),
    "interleaved": (lambda: interleaved_plan(), r"the plan has 2 stages on each rank.*one stage a rank"),
    "spread": (lambda: spread_plan(), r"spreads the vocabulary.*spread_vocabulary = false"),
    "mlp": (lambda: random_plan([5, 9], [0, 2, 4], random.Random(1), recompute="mlp"),
            r"computes \"mlp\" of some layers again.*plan with one of these"),
}


def split_plan():
    content = json.loads(random_plan([5], [0, 4], random.Random(1), kind="packed").to_json())
    content["schedules"] = ["0F0,0I0,0W0\n"]
    return StepPlan.from_json(json.dumps(content), "plan")


def interleaved_plan():
    content = json.loads(random_plan([5], [0, 1, 2, 3, 4], random.Random(1), kind="packed").to_json())
    content["plan"]["stages_per_rank"] = 2
    content["schedules"] = ["0F0,2F0,2B0,0B0\n1F0,3F0,3B0,1B0\n"]
    return StepPlan.from_json(json.dumps(content), "plan")


def spread_plan():
    content = json.loads(random_plan([5], [0, 2, 4], random.Random(1), kind="packed").to_json())
    content["plan"]["spread_vocabulary"] = True
    content["schedules"] = ["0E0,0F0,0H0,0B0,0G0\n1E0,1F0,1H0,1B0,1G0\n"]
    return StepPlan.from_json(json.dumps(content), "plan")


@pytest.mark.parametrize("name", PLANS)
def test_plans_that_the_runtime_has_no_form_for_are_refused_before_a_model_is_read(name):
    make, reason = PLANS[name]
    with pytest.raises(InvalidInput, match=reason):
        Stage.from_pretrained("no such folder", make(), 0)
    with pytest.raises(InvalidInput, match=reason):
        stage_plan(make(), 0, 0)


def engine_and_plan():
    stages = stages_of(lambda: model_of(config_of("llama"), 1), [0, 2, 4])
    return LocalEngine(stages), random_plan([5, 9], [0, 2, 4], random.Random(1))


@pytest.mark.parametrize(("lengths", "labels", "reason"), [
    ([5], None, r"documents has no entry 1"),
    ([5, 8], None, r"documents\[1\] has shape \[8\], the plan has 9 tokens"),
    ([5, 9], [5, 8], r"labels\[1\] has shape \[8\], its document has 9 tokens"),
])
def test_documents_that_are_not_those_of_the_plan_are_refused(lengths, labels, reason):
    engine, plan = engine_and_plan()
    documents = [torch.full((n,), 7) for n in lengths]
    with pytest.raises(InvalidInput, match=reason):
        engine.step(plan, documents, labels and [torch.full((n,), 7) for n in labels])


@pytest.mark.parametrize(("document", "reason"), [
    ([7, 97, 7, 7, 7], r"documents\[0\] has 97 at position 1, the model's vocabulary ends with 96"),
    ([7, 7, 7, 7, -1], r"documents\[0\] has -1 at position 4"),
    ([7, 7, 1.5, 7, 7], r"documents\[0\] is of type torch.float32, must be whole numbers"),
    ([True] * 5, r"documents\[0\] is of type torch.bool"),
    (["7"] * 5, r"documents\[0\] is no list of token ids"),
    ([7, 7, 2**70, 7, 7], r"documents\[0\] is no list of token ids"),
])
def test_what_is_no_token_of_the_model_is_refused_by_its_document(document, reason):
    engine, plan = engine_and_plan()
    with pytest.raises(InvalidInput, match=reason):
        engine.step(plan, [document, [7] * 9])


def test_labels_are_tokens_of_the_model_or_none():
    engine, plan = engine_and_plan()
    documents = [[7] * 5, [7] * 9]
    engine.step(plan, documents, [[-100, 7, 96, 0, -100], [7] * 9])
    with pytest.raises(InvalidInput, match=r"labels\[0\] has -1 at position 2, .* or -100 for none"):
        engine.step(plan, documents, [[7, 7, -1, 7, 7], [7] * 9])


def test_an_unknown_way_to_balance_experts_is_refused():
    reason = r"load_balancing is 'batch', must be \"step\" or \"micropack\""
    with pytest.raises(InvalidInput, match=reason):
        LocalEngine([], load_balancing="batch")


def test_a_release_of_torch_that_cannot_share_weights_out_is_refused(monkeypatch):
    monkeypatch.delattr(FSDPModule, "set_reduce_scatter_unused_params", raising=False)
    with pytest.raises(InvalidInput, match="take torch 2.13, or leave shard_replicas out"):
        Sharded(None, None)


def test_resharding_whole_replicas_is_refused():
    with pytest.raises(InvalidInput, match="for replicas that share weights out; give shard_replicas=True, too"):
        replication_of(None, None, sharded=False, resharded=True)


@pytest.mark.parametrize(("which", "reason"), [
    ("some", r"the optimizer has (\d+) of the stage's (\d+) parameters that are trained; give one optimizer with all"),
    ("others", r"the optimizer has 1 parameters that are none of this stage's; make it of stage.parameters\(\)"),
])
def test_an_optimizer_of_other_parameters_is_refused_on_all_ranks(which, reason):
    (_, (kind, message, _)), (_, (own_kind, own_message, _)) = outcomes(2, pipeline_worker.update_with, which)
    assert (kind, own_kind) == ("RanksFailed", "InvalidInput")
    assert re.match(reason, own_message) and message == f"rank 1: {own_message}"


def test_an_optimizer_without_what_is_frozen_updates():
    run(2, pipeline_worker.update_with, "frozen")
