"""The share of one stage in a planned step, as plain data: MicroPacks, and the order of its
work."""

import dataclasses

from slimpack import InvalidInput
from slimpack._planner import Operation
from slimpack.export.slices import Slice, replica_of, slices

FORWARD, BACKWARD = "F", "B"
_AGAIN = {"full", "offload"}  # whose layers run again in backward
RECEIVE, COMPUTE, SEND = Operation.RECEIVE, Operation.COMPUTE, Operation.SEND  # for a pass


@dataclasses.dataclass(frozen=True)
class Pack:
    """A MicroPack. Its rows are those of its slices, which ascend by sequence, so that a forward
    and a backward MicroPack of the same slices have the same rows."""

    slices: tuple[Slice, ...]

    @property
    def tokens(self):
        return sum(part.end - part.begin for part in self.slices)


@dataclasses.dataclass(frozen=True)
class StagePlan:
    """The plan of a stage's work in a step.

    forward, backward: Packs, by their number in the plan.
    order: (operation, pass, number of the pack) of all that the stage does. An operation is
        RECEIVE, COMPUTE or SEND, a pass FORWARD or BACKWARD.
    kept: by number of a backward pack the forward one whose graph it runs. Other backward packs
        compute their forward again.
    elementwise: layers whose kept graphs lack what needs no matrix product (selective.py).
    offloaded: layers that keep what they need between passes in host memory (memory.py).
    """

    forward: list[Pack]
    backward: list[Pack]
    order: list[tuple[Operation, str, int]]
    kept: dict[int, int]
    elementwise: frozenset[int] = frozenset()
    offloaded: frozenset[int] = frozenset()

    def lengths(self):
        """By sequence its tokens."""
        return {part.sequence: part.end for pack in self.forward for part in pack.slices}

    def begins(self, passes):
        """By sequence, ascending: where slices with a prefix begin in some of the passes."""
        found = {}
        for packs in (getattr(self, name) for name in passes):
            for part in (part for pack in packs for part in pack.slices if part.begin > 0):
                found.setdefault(part.sequence, set()).add(part.begin)
        return {sequence: sorted(begins) for sequence, begins in found.items()}


def require_runnable(plan):
    """Raises InvalidInput where a StepPlan holds what this runtime has no form for: tensor-parallel
    ranks, several stages on a rank, a spread vocabulary, MicroPacks shared by replicas, backward passes in two parts, other
    recomputations."""
    if plan.tp > 1:
        raise InvalidInput(
            f"the plan is for tp = {plan.tp}, this runtime has one rank a stage; plan with tp "
            "= 1 and more stages or replicas")
    if plan.stages_per_rank > 1:
        raise InvalidInput(
            f"the plan has {plan.stages_per_rank} stages on each rank, this runtime runs one; plan "
            "with one stage a rank")
    if plan.spread_vocabulary:
        raise InvalidInput(
            "the plan spreads the vocabulary over the pipeline, this runtime keeps embedding and head "
            "whole; plan with parallel.spread_vocabulary = false")
    for kind in sorted(set(plan.recompute) - {"nothing", "elementwise", *_AGAIN}):
        raise InvalidInput(
            f"the plan computes \"{kind}\" of some layers again, this runtime knows \"nothing\", "
            "\"elementwise\", \"full\" and \"offload\"; plan with one of these for recompute")
    for replica in range(len(plan.replicas)):
        replica_of(plan, replica)
        for action in (action for rank in plan.actions(replica) for action in rank):
            if action.passes not in (FORWARD, BACKWARD):
                raise InvalidInput(
                    f"action {action} of replica {replica} splits a backward pass, autograd runs it "
                    "whole; plan without backward=\"split\"")


def stage_plan(plan, replica, stage):
    """The StagePlan of a StepPlan's stage. Raises as require_runnable."""
    require_runnable(plan)
    of_replica = replica_of(plan, replica)
    forward, backward = ([Pack(tuple(sorted(slices(pack)))) for pack in packs]
                         for packs in (of_replica.forward, of_replica.backward))
    order = [(entry.operation, entry.action.passes, entry.action.pack)
             for entry in plan.instructions(replica)[stage]]
    recompute = plan.recompute_by_layer
    layers = range(*plan.layer_begin[stage:stage + 2])
    offloaded = frozenset(i for i in layers if recompute[i] == "offload")
    if any(recompute[i] in _AGAIN for i in layers):  # of one layer: then the stage keeps no graph
        return StagePlan(forward, backward, order, {}, offloaded=offloaded)
    elementwise = frozenset(i for i in layers if recompute[i] == "elementwise")
    return StagePlan(forward, backward, order, _kept_graphs(forward, backward), elementwise)


def _kept_graphs(forward, backward):
    number_of = {pack.slices: number for number, pack in enumerate(forward)}
    return {number: number_of[pack.slices] for number, pack in enumerate(backward)
            if pack.slices in number_of}
