"""Stages keep only the bytes between passes that some later slice needs."""

import json
import random

import pytest
import torch
from families import config_of, model_of
from slimpack import StepPlan
from slimpack.torch.pipeline import memory
from slimpack.torch.pipeline.memory import DeviceMemory, HostMemory
from slimpack.torch.pipeline.random_plan import random_plan
from slimpack.torch.pipeline.token_rows import Ranges, TokenRows
from trial import random_case, run_locally

ROW = 32 * 8  # bytes: hidden size, fp64
KEY = 2 * 8 * 8  # key heads, their width, fp64


def plan_of(lengths, forward, backward, recompute="full"):
    """Two stages of two layers; forward passes first."""
    content = json.loads(random_plan(lengths, [0, 2, 4], random.Random(1),
                                     recompute=recompute).to_json())
    order = [f"F{i}" for i in range(len(forward))] + [f"B{i}" for i in range(len(backward))]
    content["plan"]["replicas"] = [dict(sequences=list(range(len(lengths))), forward=forward,
                                        backward=backward)]
    content["schedules"] = ["".join(",".join(f"{s}{a}" for a in order) + "\n" for s in range(2))]
    return StepPlan.from_json(json.dumps(content), "plan")


def engine_of(family, lengths, forward, backward, recompute="full"):
    documents = [torch.arange(n) % 90 + 3 for n in lengths]
    plan = plan_of(lengths, forward, backward, recompute)
    engine, _ = run_locally(model_of(config_of(family), 1), plan, documents)
    return engine


def peak_bytes(*args):
    return list(engine_of(*args).peak_bytes)


def test_a_cut_document_keeps_inputs_and_the_keys_of_prefixes():
    # F0 = [0, 6), F1 = [6, 10), B0 = [5, 10), B1 = [0, 5). Prefixes cover tokens 0 to 5: 6 rows of
    # keys and values in 2 layers. B0 reads them for the last time; 5 rows of gradients take their
    # place. The last stage keeps its inputs, too, and that is the most: after F1.
    keys = 6 * 2 * 2 * KEY
    peaks = peak_bytes("llama", [10], [[[0, 0, 6]], [[0, 6, 10]]], [[[0, 5, 10]], [[0, 0, 5]]])
    assert peaks == [keys, keys + 10 * ROW]


def test_whole_documents_keep_inputs_alone():
    whole = [[[0, 0, 10], [1, 0, 7]]]
    assert peak_bytes("llama", [10, 7], whole, whole) == [0, 17 * ROW]


def test_layers_with_a_window_keep_what_a_slice_sees():
    # gemma2's layers 0 and 2 have a window of 16 tokens: a slice that begins at 50 sees 15 of the
    # tokens before it, the other layers see 50.
    keys = (15 + 50) * 2 * KEY
    cut = [[[0, 0, 50]], [[0, 50, 60]]]
    assert peak_bytes("gemma2", [60], cut, cut[::-1]) == [keys, keys + 60 * ROW]


@pytest.mark.parametrize(("recompute", "elementwise"), [
    ("nothing", 0), ("elementwise", 2), (["nothing", "elementwise"] * 2, 1)])
def test_prefixes_stay_for_layers_that_run_again_for_a_kept_graph(recompute, elementwise):
    # A layer keeps keys of 6 tokens of each document. The second slice reads them; only in
    # elementwise layers they stay for its backward pass. So while F2 keeps those of the second
    # document in two layers, those of the first one are in the elementwise layers.
    cut = [[[0, 0, 6]], [[0, 6, 10]], [[1, 0, 6]], [[1, 6, 10]]]
    most = (2 + elementwise) * 6 * 2 * KEY
    assert peak_bytes("llama", [10, 10], cut, cut[::-1], recompute) == [most, most]


def test_offloaded_layers_keep_their_keys_and_the_stages_inputs_in_host_memory():
    # The document is the one above. With one of a stage's two layers half of the keys stay there.
    keys = 6 * 2 * 2 * KEY
    cut = [10], [[[0, 0, 6]], [[0, 6, 10]]], [[[0, 5, 10]], [[0, 0, 5]]]
    every = engine_of("llama", *cut, "offload")
    assert list(every.peak_bytes) == [0, 0]
    assert list(every.host_peak_bytes) == [keys, keys + 10 * ROW]
    half = engine_of("llama", *cut, ["full", "offload"] * 2)
    assert list(half.peak_bytes) == [keys // 2, keys // 2]
    assert list(half.host_peak_bytes) == [keys // 2, keys // 2 + 10 * ROW]


@pytest.mark.parametrize("seed", range(20))
def test_offloaded_layers_change_no_bit_of_gradients(seed, monkeypatch):
    # Sums come to the device three rows at a time: a row has 2 heads, 8 wide, in fp64.
    monkeypatch.setattr(memory, "_AT_ONCE", 3 * KEY)
    rng, settings = random.Random(seed), dict(kind="sliced")
    some = [rng.choice(["full", "offload"]) for _ in range(4)]
    model = model_of(config_of(rng.choice(["llama", "gemma2"])), seed)
    engines = [run_locally(model, *random_case(seed, recompute=of, **settings))[0]
               for of in ("full", "offload", some)]
    ours, *others = ([p.grad for stage in engine.stages for p in stage.parameters()]
                     for engine in engines)
    for theirs in others:
        assert all(torch.equal(a, b) for a, b in zip(ours, theirs, strict=True)
                   if a is not None or b is not None)
    assert sum(engines[1].peak_bytes) == 0


@pytest.mark.parametrize("memory_of_rows", [DeviceMemory, HostMemory])
@pytest.mark.parametrize("seed", range(40))
def test_rows_of_tokens_are_found_again(seed, memory_of_rows, monkeypatch):
    # Against a dictionary of single tokens. A row has 2 heads, 3 wide, in fp32.
    monkeypatch.setattr(memory, "_AT_ONCE", 2 * 24)
    rng = random.Random(seed)
    length, window = rng.randint(2, 40), rng.choice([None, 1, 2, 5, 50])
    begins = sorted(rng.sample(range(1, length), rng.randint(1, min(4, length - 1))))
    seen = {begin: [t for t in range(begin) if window is None or t > begin - window]
            for begin in begins}
    kept = set().union(*seen.values())
    assert Ranges(begins, window).rows == len(kept)

    of_rows = memory_of_rows()
    meter = of_rows.meter
    store = TokenRows({0: begins}, {3: window}, lambda layer: of_rows)
    values = torch.arange(2 * length * 3.0).reshape(2, length, 3)
    cuts = sorted({0, length, *rng.sample(range(1, length), rng.randint(0, length - 1))})
    for first, end in zip(cuts, cuts[1:], strict=False):
        store.put((3, "k"), 0, first, values[:, first:end])
    assert meter.now == meter.peak == len(kept) * 2 * 3 * 4
    for begin, tokens in seen.items():
        if tokens:
            read = torch.empty(2, len(tokens), 3)
            store.read((3, "k"), 0, tokens[0], read)
            assert torch.equal(read, values[:, tokens])
    for begin in begins:
        if seen[begin]:
            store.add((3, "g"), 0, seen[begin][0], values[:, seen[begin]], torch.float32)
    times = torch.tensor([sum(t in tokens for tokens in seen.values()) for t in range(length)])
    found = torch.cat([store.added_to((3, "g"), 0, first, values[:, first:end])
                       for first, end in zip(cuts, cuts[1:], strict=False)], 1)
    assert torch.equal(found, values * (1 + times)[None, :, None])
    store.drop_sequence(0, lambda layer: layer == 3)
    assert meter.now == 0
