"""The share of one stage in a planned step, as plain data: MicroPacks, and the order of its
work."""

import dataclasses
import json
import re

from slimpack import InvalidInput
from slimpack.export.slices import Slice, replica_of, slices

FORWARD, BACKWARD = "F", "B"
_ACTION = re.compile(r"(\d+)([FBIW])(\d+)")


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
    """What a stage does in a step.

    forward, backward: Packs, by their number in the plan.
    order: (pass, number of the pack) of every action; a pass is FORWARD or BACKWARD.
    kept: by number of a backward pack the forward one whose graph it runs. Other backward packs
        compute their forward again.
    """

    forward: list[Pack]
    backward: list[Pack]
    order: list[tuple[str, int]]
    kept: dict[int, int]

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
    ranks, MicroPacks shared by replicas, backward passes in two parts, partial recomputation."""
    tensor_ranks = json.loads(plan.to_json())["cost"]["tp"]
    if tensor_ranks > 1:
        raise InvalidInput(
            f"the plan is for tp = {tensor_ranks}, this runtime has one rank a stage; plan with tp "
            "= 1 and more stages or replicas")
    for kind in sorted(set(plan.recompute) - {"nothing", "full"}):
        raise InvalidInput(
            f"the plan computes \"{kind}\" of some layers again, this runtime computes everything "
            "again or nothing; plan with recompute=\"full\" or recompute=\"nothing\"")
    for replica in range(len(plan.replicas)):
        replica_of(plan, replica)
        for text in (action for line in plan.schedule(replica) for action in line):
            if _ACTION.fullmatch(text)[2] not in (FORWARD, BACKWARD):
                raise InvalidInput(
                    f"action {text} of replica {replica} splits a backward pass, autograd runs it "
                    "whole; plan without backward=\"split\"")


def stage_plan(plan, replica, stage):
    """The StagePlan of a StepPlan's stage. Raises as require_runnable."""
    require_runnable(plan)
    of_replica = replica_of(plan, replica)
    forward, backward = ([Pack(tuple(sorted(slices(pack)))) for pack in packs]
                         for packs in (of_replica.forward, of_replica.backward))
    actions = (_ACTION.fullmatch(text).groups() for text in plan.schedule(replica)[stage])
    order = [(kind, int(number)) for _, kind, number in actions]
    kept = _kept_graphs(forward, backward) if _keeps_graphs(plan, stage) else {}
    return StagePlan(forward, backward, order, kept)


def _keeps_graphs(plan, stage):
    """Whether the plan computes nothing again on a stage."""
    if set(plan.recompute) <= {"nothing"}:
        return True
    by_layer = json.loads(plan.to_json())["plan"]["recompute"]
    return set(by_layer[plan.layer_begin[stage]:plan.layer_begin[stage + 1]]) == {"nothing"}


def _kept_graphs(forward, backward):
    number_of = {pack.slices: number for number, pack in enumerate(forward)}
    return {number: number_of[pack.slices] for number, pack in enumerate(backward)
            if pack.slices in number_of}
