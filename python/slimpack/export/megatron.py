"""Megatron-Core: a packing scheduler with equal work, attention's metadata, and an execution plan.

    megatron.register(cost=job)           # then train with --sequence-packing-scheduler dp_balanced

    for params in megatron.packed_seq_params(step)[replica]:
        PackedSeqParams(**params)

    json.dump(megatron.execution_plan(step), file)
"""

import dataclasses
import itertools
from collections import deque
from typing import NamedTuple

from slimpack import InvalidInput, MicroPack
from slimpack.balancing import (
    costs_of,
    fewest_micro_batches,
    light_at_both_ends,
    require_positive,
    require_under_cap,
)
from slimpack.export.slices import replica_of, slices
from slimpack.lengths import as_lengths


class SlimPackScheduler:
    """Schedules samples as Megatron-Core's BasePackingScheduler does: every data-parallel rank gets
    equal work in the same number of micro-batches, and none holds more tokens than its ranks may.
    Light micro-batches come first and last, so that pipelines fill and drain soon.

    The arguments are those of Megatron's class. cost: a slimpack.Job, or None for the FLOPs of a 7B
    model. To run in Megatron, derive from its DpBalancedScheduler, too, as `register` does.
    """

    def __init__(self, max_seqlen_per_dp_cp_rank, cp_size, dp_size,
                 microbatch_group_size_per_vp_stage=None, *, cost=None):
        for name, value in (("max_seqlen_per_dp_cp_rank", max_seqlen_per_dp_cp_rank),
                            ("cp_size", cp_size), ("dp_size", dp_size),
                            ("microbatch_group_size_per_vp_stage",
                             microbatch_group_size_per_vp_stage)):
            require_positive(name, value)
        self.max_seqlen_per_dp_cp_rank = max_seqlen_per_dp_cp_rank
        self.max_seq_len_all_ranks = max_seqlen_per_dp_cp_rank * cp_size
        self.cp_size, self.dp_size = cp_size, dp_size
        self.microbatch_group_size_per_vp_stage = microbatch_group_size_per_vp_stage
        self.cost = cost

    def get_groups_and_subsamples(self, sample_id_seqlens):
        """`[micro-batch][data- and context-parallel rank]` of ids, from (id, tokens) of every sample.

        The ranks of a context-parallel group follow each other and have the same ids. Raises
        InvalidInput where no number of micro-batches fits.
        """
        ids = [int(sample) for sample, _ in sample_id_seqlens]
        lengths = as_lengths([int(length) for _, length in sample_id_seqlens])
        require_under_cap(lengths, self.max_seq_len_all_ranks,
                          "max_seqlen_per_dp_cp_rank · cp_size", "sample")
        multiple = self.microbatch_group_size_per_vp_stage or 1
        costs = costs_of(lengths, self.cost)
        of_rank = fewest_micro_batches(costs, lengths, self.dp_size, self.max_seq_len_all_ranks,
                                       multiple=multiple)
        if of_rank is None:
            raise InvalidInput(
                f"{len(ids)} samples fill no micro-batches of {self.max_seq_len_all_ranks} tokens "
                f"on {self.dp_size} data-parallel ranks, in multiples of {multiple}, of which none "
                "is empty; raise the global batch or max_seqlen_per_dp_cp_rank")
        of_rank = [light_at_both_ends(batches, costs) for batches in of_rank]
        return [[[ids[i] for i in batch] for batch in at_once for _ in range(self.cp_size)]
                for at_once in zip(*of_rank, strict=True)]


def register(cost=None):
    """Makes Megatron-Core's dp_balanced scheduler this one. Call it before training starts, on
    every rank. cost: as for SlimPackScheduler.

    Raises InvalidInput where Megatron-Core has no such scheduler: the releases up to 0.16.1 have
    none.
    """
    from megatron.core import package_info
    from megatron.core.datasets import data_schedule

    theirs = getattr(data_schedule, "DpBalancedScheduler", None)
    if theirs is None:
        raise InvalidInput(
            f"megatron-core {package_info.__version__} has no packing scheduler dp_balanced; install "
            "Megatron-LM from its branch main of August 2026 or later (pull request 6626), or from dev")

    class Scheduler(SlimPackScheduler, theirs):
        def __init__(self, *args, max_num_seqs=None, **kwargs):
            if max_num_seqs is not None:
                raise InvalidInput(
                    f"thd_max_num_seqs is {max_num_seqs}, SlimPack's scheduler bounds the tokens of a "
                    "micro-batch alone; leave it out")
            theirs.__init__(self, *args, **kwargs)
            SlimPackScheduler.__init__(self, *args, cost=cost, **kwargs)

    for name in [name for name, kind in data_schedule.scheduler_map.items() if kind is theirs]:
        data_schedule.scheduler_map[name] = Scheduler


def packed_seq_params(step, *, passes="forward", align=1, device=None):
    """`[replica][MicroPack]`: the fields of Megatron-Core's PackedSeqParams as a dict; those that the
    installed release has, if there is one.

    Queries are the slices' own tokens. Keys and values are the whole sequence up to a slice's end:
    its prefix, as earlier MicroPacks computed it, and then its own rows. A causal mask is aligned
    bottom right where both differ. Whole sequences have equal numbers of both.

    passes: "forward" or "backward" MicroPacks. align: own rows are padded to a multiple of it; give
    2 · cp with context parallelism. device: of the tensors.

    Raises InvalidInput for MicroPacks that replicas share.
    """
    if passes not in ("forward", "backward"):
        raise InvalidInput(f"passes is {passes!r}, must be \"forward\" or \"backward\"")
    require_positive("align", align)
    known = _known_fields()
    return [[{name: value for name, value in _params_of(slices(pack), align, device).items()
              if known is None or name in known}
             for pack in getattr(replica_of(step, replica), passes)]
            for replica in range(len(step.replicas))]


def _known_fields():
    """The fields of the installed PackedSeqParams; None without Megatron-Core."""
    try:
        from megatron.core.packed_seq_params import PackedSeqParams
    except ImportError:
        return None
    return {field.name for field in dataclasses.fields(PackedSeqParams)}


def _params_of(pack, align, device):
    import torch

    def cumulative(lengths):
        return torch.tensor([0, *itertools.accumulate(lengths)], dtype=torch.int32, device=device)

    own = [end - begin for _, begin, end in pack]
    padding = [-length % align for length in own]
    ends = [end for _, _, end in pack]
    own_padded = [length + more for length, more in zip(own, padding, strict=True)]
    ends_padded = [end + more for end, more in zip(ends, padding, strict=True)]
    return {"qkv_format": "thd",
            "cu_seqlens_q": cumulative(own), "cu_seqlens_kv": cumulative(ends),
            "cu_seqlens_q_padded": cumulative(own_padded),
            "cu_seqlens_kv_padded": cumulative(ends_padded),
            "max_seqlen_q": max(own_padded), "max_seqlen_kv": max(ends_padded),
            "total_tokens": sum(own_padded), "pad_between_seqs": any(padding)}


def execution_plan(step):
    """The step in the dataclasses of Megatron-LM's sequence-packing planning API (pull request
    5612), as a dict for JSON.

    "sequences" are SequenceDescriptors, "packs" PackDescriptors, "plan" is the ExecutionPlan.
    Forward and backward MicroPacks are packs of their own. `metadata` has what the API has no field
    for: a pack's "pass" and the "begin" of its slices, an assignment's "micro_packs" by rank, a
    plan's stages and its schedules, by replica and rank of the pipeline. Executor ranks are
    replicas. A group holds one MicroPack of each replica, in the order of the last stage; the order
    of every stage is in the schedules.
    """
    packs, groups = [], []
    for at_once in _rounds(step):
        groups.append({"group_id": len(groups), "requires_barrier_after": False, "metadata": {},
                       "assignments": [_assigned(packs, action) for action in at_once]})
    lengths = [int(length) for length in step.lengths]
    replicas = range(len(step.replicas))
    return {
        "sequences": [{"sample_id": sample, "num_tokens": length, "padded_num_tokens": None,
                       "metadata": {}} for sample, length in enumerate(lengths)],
        "packs": packs,
        "plan": {"groups": groups, "total_tokens": sum(lengths),
                 "num_microbatches": max(len(replica.forward) for replica in step.replicas),
                 "sequence_square_sum": sum(length * length for length in lengths),
                 "metadata": {"producer": "slimpack", "version": 1,
                              "layer_begin": list(step.layer_begin), "recompute": step.recompute,
                              "schedules": [step.schedule(replica) for replica in replicas],
                              "makespan_seconds": step.makespan}}}


class _Action(NamedTuple):
    """One pass of a MicroPack, and the replicas that run it together."""

    passes: str
    pack: MicroPack
    replicas: list
    indices: list  # by replica, of the MicroPack


def _assigned(packs, action):
    """Describes a MicroPack in `packs`; returns its PackAssignment."""
    held, pack_id = slices(action.pack), len(packs)
    packs.append({"pack_id": pack_id, "sample_ids": [part.sequence for part in held],
                  "sequence_lengths": [part.end - part.begin for part in held],
                  "padded_sequence_lengths": None,
                  "metadata": {"pass": action.passes, "begin": [part.begin for part in held]}})
    shared = len(action.replicas) > 1
    return {"pack_id": pack_id, "placement_kind": "dynamic_cp" if shared else "data_parallel",
            "executor_ranks": action.replicas,
            "rank_group_id": "replicas-" + "-".join(map(str, action.replicas)) if shared else None,
            "local_cp_size": len(action.replicas), "metadata": {"micro_packs": action.indices}}


def _rounds(step):
    """Rounds of actions that run at once: lists of actions. Follows the last stage of every replica. A
    MicroPack that replicas share waits until all of them have come to it."""
    orders = [deque(_last_stage(step, replica)) for replica in range(len(step.replicas))]
    while any(orders):
        together = {}  # by MicroPack the replicas that have come to it
        for replica, order in enumerate(orders):
            if order:
                passes, index, pack = order[0]
                action = together.setdefault((passes, *slices(pack)), _Action(passes, pack, [], []))
                action.replicas.append(replica)
                action.indices.append(index)
        complete = [action for action in together.values()
                    if len(action.replicas) == action.pack.replicas]
        assert complete, "a checked schedule has no circle"
        for replica in itertools.chain(*(action.replicas for action in complete)):
            orders[replica].popleft()
        yield complete


def _last_stage(step, replica):
    """(pass, index, MicroPack) in the order of the last stage. Split backwards count where they
    begin."""
    plan = step.replicas[replica]
    last = len(step.layer_begin) - 2
    for action in itertools.chain(*step.actions(replica)):  # by rank: one of them has the stage
        if action.stage != last:
            continue
        if action.passes == "F":
            yield "forward", action.pack, plan.forward[action.pack]
        elif action.passes in ("B", "I"):
            yield "backward", action.pack, plan.backward[action.pack]
