"""Exports to Megatron-Core, read by a strict parser that was written from its dataclasses."""

import dataclasses
import itertools
import json
import re
import sys
import types
import typing
from pathlib import Path

import numpy as np
import pytest
import slimpack
import torch
from generated import examples
from hypothesis import given
from hypothesis import strategies as st
from slimpack.balancing import costs_of, fewest_micro_batches
from slimpack.export import megatron
from torch.nn.attention.bias import causal_lower_right

ROOT = Path(__file__).parents[2]
LENGTHS = np.minimum(np.random.default_rng(5).lognormal(6, 1.0, 200).astype(np.int64) + 1, 4096)
LLAMA = {"hardware": "h100", "memory_cap": "none"}


# The dataclasses of Megatron-LM's pull request 5612: names, types, and what they refuse.
@dataclasses.dataclass
class SequenceDescriptor:
    sample_id: int
    num_tokens: int
    padded_num_tokens: int | None
    metadata: dict

    def check(self):
        assert self.num_tokens > 0
        assert self.padded_num_tokens is None or self.padded_num_tokens >= self.num_tokens


@dataclasses.dataclass
class PackDescriptor:
    pack_id: int
    sample_ids: list[int]
    sequence_lengths: list[int]
    padded_sequence_lengths: list[int] | None
    metadata: dict

    def check(self):
        assert len(self.sample_ids) == len(self.sequence_lengths) > 0
        assert min(self.sequence_lengths) > 0


@dataclasses.dataclass
class PackAssignment:
    pack_id: int
    placement_kind: str
    executor_ranks: list[int]
    rank_group_id: str | None
    local_cp_size: int | None
    metadata: dict

    def check(self):
        assert self.placement_kind in ("data_parallel", "static_cp", "dynamic_cp", "hybrid_ep",
                                       "custom")
        assert len(set(self.executor_ranks)) == len(self.executor_ranks) > 0
        assert min(self.executor_ranks) >= 0 and self.local_cp_size > 0


@dataclasses.dataclass
class ExecutionGroup:
    group_id: int
    assignments: list[PackAssignment]
    requires_barrier_after: bool
    metadata: dict

    def check(self):
        assert self.assignments


@dataclasses.dataclass
class ExecutionPlan:
    groups: list[ExecutionGroup]
    num_microbatches: int | None
    total_tokens: int | None
    sequence_square_sum: int | None
    metadata: dict

    def check(self):
        assert self.groups
        assert min(self.num_microbatches, self.total_tokens, self.sequence_square_sum) > 0


def parsed(kind, value):
    """The value as a type or dataclass; every field must be there, none else, and of its type."""
    if dataclasses.is_dataclass(kind):
        fields = typing.get_type_hints(kind)
        assert value.keys() == fields.keys()
        made = kind(**{name: parsed(fields[name], part) for name, part in value.items()})
        made.check()
        return made
    if typing.get_origin(kind) is list:
        assert type(value) is list
        return [parsed(typing.get_args(kind)[0], part) for part in value]
    kinds = typing.get_args(kind) or (kind,)
    assert type(value) in kinds, (kind, value)
    return value


def read_plan(step):
    """(sequences, packs, plan) from the JSON text."""
    document = json.loads(json.dumps(megatron.execution_plan(step)))
    assert document.keys() == {"sequences", "packs", "plan"}
    return (parsed(list[SequenceDescriptor], document["sequences"]),
            parsed(list[PackDescriptor], document["packs"]),
            parsed(ExecutionPlan, document["plan"]))


def whole():
    return slimpack.Job("llama-3-8b", {"pp": 4, "dp": 2}, "h100", planner="packed").plan(LENGTHS)


def sliced():
    return slimpack.Job("llama-3-8b", {"pp": 4, "dp": 2}, "h100").plan(LENGTHS)


def split():
    return slimpack.Job("llama-3-8b", {"pp": 4, "dp": 2}, "h100", backward="split").plan(LENGTHS)


def merged():
    job = slimpack.Job("llama-3-8b", {"pp": 2, "dp": 4}, most_merged=2, **LLAMA)
    return job.plan([8192, 100, 100, 8192, 4000, 300, 200, 2000])


def interleaved():
    return slimpack.Job("llama-3-8b", {"pp": 2, "dp": 2, "stages_per_rank": 2}, **LLAMA).plan(LENGTHS)


def spread_vocabulary():
    grid = {"pp": 2, "dp": 2, "spread_vocabulary": True}
    return slimpack.Job("llama-3-8b", grid, **LLAMA).plan(LENGTHS)


PLANS = [whole, sliced, split, merged, interleaved, spread_vocabulary]


@pytest.mark.parametrize("make", PLANS)
def test_a_plan_has_every_token_once_in_each_pass_and_in_order(make):
    step = make()
    sequences, packs, plan = read_plan(step)
    assert [s.num_tokens for s in sequences] == step.lengths.tolist()
    assert [p.pack_id for p in packs] == list(range(len(packs)))
    assigned = [a for group in plan.groups for a in group.assignments]
    assert sorted(a.pack_id for a in assigned) == list(range(len(packs)))

    forward, backward = [0] * len(sequences), step.lengths.tolist()  # tokens until here are done
    for assignment in assigned:
        pack = packs[assignment.pack_id]
        parts = zip(pack.sample_ids, pack.metadata["begin"], pack.sequence_lengths, strict=True)
        for sample, begin, length in parts:
            if pack.metadata["pass"] == "forward":
                assert begin == forward[sample]
                forward[sample] += length
            else:
                assert forward[sample] >= begin + length == backward[sample]
                backward[sample] = begin
    assert forward == step.lengths.tolist() and not any(backward)
    assert plan.total_tokens == step.lengths.sum()
    assert plan.sequence_square_sum == (step.lengths.astype(object)**2).sum()


@pytest.mark.parametrize("make", PLANS)
def test_a_plan_can_be_run_with_its_schedules(make):
    step = make()
    _, packs, plan = read_plan(step)
    names = [[] for _ in step.replicas]  # of each replica's MicroPacks, in order
    for group in plan.groups:
        ranks = [rank for a in group.assignments for rank in a.executor_ranks]
        assert len(set(ranks)) == len(ranks)
        for a in group.assignments:
            assert a.local_cp_size == len(a.executor_ranks) == len(a.metadata["micro_packs"])
            for rank, index in zip(a.executor_ranks, a.metadata["micro_packs"], strict=True):
                names[rank].append(packs[a.pack_id].metadata["pass"][0].upper() + str(index))
    last = str(len(plan.metadata["layer_begin"]) - 2)  # the stage
    for replica, of_replica in enumerate(names):
        actions = [action for rank in plan.metadata["schedules"][replica] for action in rank]
        there = [re.fullmatch(r"(\d*)([FBI])(\d+)", action) for action in actions]
        assert of_replica == [found[2].replace("I", "B") + found[3]
                              for found in there if found and found[1] == last]
    assert plan.num_microbatches == max(sum(n[0] == "F" for n in of) for of in names)


def test_shared_microPacks_run_on_all_their_replicas():
    step = merged()
    _, packs, plan = read_plan(step)
    shared = [a for group in plan.groups for a in group.assignments if len(a.executor_ranks) > 1]
    assert shared and all(a.placement_kind == "dynamic_cp" for a in shared)
    samples = {sample for a in shared for sample in packs[a.pack_id].sample_ids}
    assert samples >= {0, 3}  # the longest ones
    assert samples == {int(sequence) for replica in step.replicas for pack in replica.forward
                       if pack.replicas > 1 for sequence in pack.sequences}


def check_fields(params, align):
    """The fields keep the rules of PackedSeqParams."""
    assert params["qkv_format"] == "thd"
    assert params["total_tokens"] == params["cu_seqlens_q_padded"][-1]
    for which in "q", "kv":
        real, padded = (params[f"cu_seqlens_{which}{end}"] for end in ("", "_padded"))
        assert real.dtype == padded.dtype == torch.int32 and real[0] == padded[0] == 0
        assert (padded.diff() >= real.diff()).all() and (real.diff() > 0).all()
        assert type(params[f"max_seqlen_{which}"]) is int
        assert params[f"max_seqlen_{which}"] == padded.diff().max()
    own = params["cu_seqlens_q_padded"].diff()
    assert (own % align == 0).all() and (own - params["cu_seqlens_q"].diff() < align).all()
    assert params["pad_between_seqs"] == bool((own != params["cu_seqlens_q"].diff()).any())


@pytest.mark.parametrize("align", [1, 8])
@pytest.mark.parametrize("make", [whole, sliced])
def test_packed_seq_params_cover_every_token_once(make, align):
    step = make()
    for passes in "forward", "backward":
        done = [0] * len(step.lengths)
        by_replica = megatron.packed_seq_params(step, passes=passes, align=align)
        for replica, of_packs in zip(step.replicas, by_replica, strict=True):
            for pack, params in zip(getattr(replica, passes), of_packs, strict=True):
                check_fields(params, align)
                own, known = params["cu_seqlens_q"].diff(), params["cu_seqlens_kv"].diff()
                assert (known - own).tolist() == pack.begin.tolist()  # the prefix
                for sequence, length in zip(pack.sequences, own.tolist(), strict=True):
                    done[sequence] += length
        assert done == step.lengths.tolist()
    prefixes = sum(int((p["cu_seqlens_kv"] - p["cu_seqlens_q"])[-1]) for p in by_replica[0])
    assert (prefixes > 0) == (make is sliced)


def test_attention_by_packed_seq_params_is_attention_of_whole_sequences():
    job = slimpack.Job("llama-3-8b", {"pp": 2, "tp": 2}, granularity=256, **LLAMA)
    step = job.plan([1700, 4096, 300])
    torch.manual_seed(0)
    q, k, v = ([torch.randn(1, 1, n, 8, dtype=torch.float64) for n in step.lengths]
               for _ in range(3))
    attend = torch.nn.functional.scaled_dot_product_attention
    whole_rows = [attend(*of_one, is_causal=True) for of_one in zip(q, k, v, strict=True)]
    packs = step.replicas[0].forward
    assert sum(len(pack) for pack in packs) > 3
    for pack, params in zip(packs, megatron.packed_seq_params(step)[0], strict=True):
        parts = zip(pack.sequences, params["cu_seqlens_q"].diff().tolist(),
                    params["cu_seqlens_kv"].diff().tolist(), strict=True)
        for sequence, own, known in parts:
            rows = attend(q[sequence][:, :, known - own:known], k[sequence][:, :, :known],
                          v[sequence][:, :, :known], attn_mask=causal_lower_right(own, known))
            torch.testing.assert_close(rows, whole_rows[sequence][:, :, known - own:known])


@given(st.lists(st.integers(1, 100), min_size=24, max_size=80), st.integers(1, 3),
       st.integers(1, 3), st.one_of(st.none(), st.integers(1, 2)))
@examples(100)
def test_scheduled_samples_come_once_under_the_cap(lengths, cp_size, dp_size, vpp):
    scheduler = megatron.SlimPackScheduler(100, cp_size, dp_size, vpp)
    samples = [(index + 7, length) for index, length in enumerate(lengths)]
    groups = scheduler.get_groups_and_subsamples(samples)
    assert len(groups) % (vpp or 1) == 0
    seen = []
    for micro_batch in groups:
        assert len(micro_batch) == dp_size * cp_size
        for first in range(0, len(micro_batch), cp_size):
            ids = micro_batch[first]
            assert micro_batch[first:first + cp_size] == [ids] * cp_size
            assert ids and sum(lengths[i - 7] for i in ids) <= 100 * cp_size
            seen += ids
    assert sorted(seen) == [sample for sample, _ in samples]


def test_scheduled_work_is_equal():
    job = slimpack.Job("llama-3-8b", {"pp": 4, "dp": 4}, "h100")
    costs = job.sequence_costs(LENGTHS)
    groups = megatron.SlimPackScheduler(8192, 1, 4, cost=job).get_groups_and_subsamples(
        list(enumerate(LENGTHS.tolist())))
    work = np.array([[costs[ids].sum() for ids in at_once] for at_once in groups])
    assert work.sum(axis=0).max() <= 1.01 * work.sum(axis=0).mean()
    for of_rank in work.T.tolist():  # light ones at both ends
        heaviest = int(np.argmax(of_rank))
        assert of_rank[:heaviest] == sorted(of_rank[:heaviest])
        assert of_rank[heaviest:] == sorted(of_rank[heaviest:], reverse=True)


def test_one_more_micro_batch_is_taken_where_the_fewest_are_too_full_for_equal_work():
    lengths = slimpack.read_lengths(ROOT / "bench" / "data" / "wlbllm_lengths.txt")[:1024]
    costs = costs_of(lengths, None)

    def excess(of_rank):
        work = [costs[np.concatenate(batches)].sum() for batches in of_rank]
        return max(work) / np.mean(work)

    fewest = next(count for count in itertools.count(1)
                  if slimpack._planner.micro_batches(costs, lengths, 8, count, 131072))
    assert excess(slimpack._planner.micro_batches(costs, lengths, 8, fewest, 131072)) > 1.01
    found = fewest_micro_batches(costs, lengths, 8, 131072)
    assert len(found[0]) == fewest + 1 and excess(found) < 1.001
    assert len(fewest_micro_batches(costs, lengths, 1, 131072)[0]) == -(-lengths.sum() // 131072)


class DpBalancedScheduler:
    """Megatron's class: its __init__ sets what its run needs."""

    def __init__(self, max_seqlen_per_dp_cp_rank, cp_size, dp_size, group_size):
        self.is_dynamic_cp = False

    def get_groups_and_subsamples(self, samples):
        raise AssertionError("replaced")

    def run(self, samples):
        assert not self.is_dynamic_cp
        return self.get_groups_and_subsamples(samples)


def install_megatron(monkeypatch, **contents):
    """A package of Megatron-Core with these modules, each a dict of what it holds."""
    for name in ["megatron", "megatron.core", "megatron.core.datasets"]:
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    for name, values in contents.items():
        parent = "megatron.core.datasets" if name == "data_schedule" else "megatron.core"
        module = types.ModuleType(f"{parent}.{name}")
        module.__dict__.update(values)
        monkeypatch.setitem(sys.modules, module.__name__, module)
        setattr(sys.modules[parent], name, module)


@pytest.mark.parametrize("name", ["dp_balanced", types.SimpleNamespace])  # main's key, and dev's, an enum
def test_registering_takes_the_place_of_dp_balanced(monkeypatch, name):
    others = {"default_dynamic_cp": object}
    schedulers = {name: DpBalancedScheduler, **others}
    install_megatron(monkeypatch, package_info={"__version__": "0.18.0"}, data_schedule={
        "DpBalancedScheduler": DpBalancedScheduler, "scheduler_map": schedulers})
    megatron.register()
    scheduler = schedulers[name](10, 1, 2, None)
    ids = scheduler.run([(0, 10), (1, 3), (2, 7)])
    assert sorted(itertools.chain(*ids[0])) == [0, 1, 2]
    assert schedulers.items() >= others.items()
    assert isinstance(schedulers[name](10, 1, 2, None, max_num_seqs=None), megatron.SlimPackScheduler)
    with pytest.raises(slimpack.InvalidInput, match="thd_max_num_seqs is 8, .*; leave it out"):
        schedulers[name](10, 1, 2, None, max_num_seqs=8)


def test_a_release_without_dp_balanced_is_refused(monkeypatch):
    install_megatron(monkeypatch, package_info={"__version__": "0.16.1"}, data_schedule={})
    with pytest.raises(slimpack.InvalidInput, match=r"megatron-core 0\.16\.1 has no packing scheduler.*; install"):
        megatron.register()


def test_fields_that_the_release_does_not_have_are_left_out(monkeypatch):
    """0.16.1 has neither total_tokens nor pad_between_seqs."""
    names = ["qkv_format", "cu_seqlens_q", "cu_seqlens_kv", "cu_seqlens_q_padded", "cu_seqlens_kv_padded",
             "max_seqlen_q", "max_seqlen_kv", "local_cp_size", "cp_group"]
    release = dataclasses.make_dataclass("PackedSeqParams", [(name, object, None) for name in names])
    everything = megatron.packed_seq_params(whole())[0][0]
    assert {"total_tokens", "pad_between_seqs"} < everything.keys()
    install_megatron(monkeypatch, packed_seq_params={"PackedSeqParams": release})
    made = release(**megatron.packed_seq_params(whole())[0][0])
    assert made.max_seqlen_q == everything["max_seqlen_q"]
    assert torch.equal(made.cu_seqlens_q, everything["cu_seqlens_q"])


@pytest.mark.parametrize(("make", "message"), [
    (lambda: megatron.SlimPackScheduler(10, 2, 2).get_groups_and_subsamples([(0, 21), (1, 5)]),
     r"sample 0 has 21 tokens, max_seqlen_per_dp_cp_rank · cp_size is 20"),
    (lambda: megatron.SlimPackScheduler(10, 1, 2).get_groups_and_subsamples([(0, 5)]),
     r"1 samples fill no micro-batches of 10 tokens on 2 data-parallel.*raise the global batch"),
    (lambda: megatron.SlimPackScheduler(10, 0, 2), r"cp_size is 0"),
    (lambda: megatron.packed_seq_params(whole(), passes="both"), r"passes is 'both'"),
    (lambda: megatron.packed_seq_params(whole(), align=0), r"align is 0"),
    (lambda: megatron.packed_seq_params(merged()), r"is shared by 2 replicas.*most_merged=1"),
])
def test_bad_input_is_refused(make, message):
    with pytest.raises(slimpack.InvalidInput, match=message):
        make()


def test_nothing_of_megatron_is_imported():
    assert "megatron" not in sys.modules
