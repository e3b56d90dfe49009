"""Schedules for torch.distributed.pipelining.

    step = job.plan(lengths)
    Path("schedule.csv").write_text(torch_pipelining.schedule_csv(step))
    count = len(torch_pipelining.micro_batches(step))
    runtime = _PipelineScheduleRuntime([stage], count, loss_fn=summed_loss, scale_grads=False)
    runtime._load_csv("schedule.csv")

Every replica has a schedule of its own, and its own number of micro-batches. torch sends tensors of
one shape, so pad every micro-batch to the longest one's tokens and let padding have no loss. Where
sequences are sliced, a stage keeps the keys and values of earlier slices and adds their gradients,
as Seq1F1B's stages do.
"""

from collections import deque

from slimpack import InvalidInput
from slimpack.export.slices import replica_of, slices


def schedule_csv(step, replica=0):
    """The order of a replica's actions as CSV text: a row for each rank, a column for each tick.

    A cell such as 0F3 is stage 0, forward, micro-batch 3; B is backward, I and W its parts for
    inputs and weights. An empty cell is an idle tick, with every action taken to last one. The
    micro-batches are those of `micro_batches`. Context exchanges are left out: they change which rank
    computes, not what is computed.

    Raises InvalidInput where a backward MicroPack holds other slices than every forward one, since
    torch's schedules have one number for both passes, and where the vocabulary is spread over the
    pipeline.
    """
    if step.spread_vocabulary:
        raise InvalidInput(
            "the plan spreads the vocabulary over the pipeline, torch's schedules have no actions "
            "that all ranks run together; plan with parallel.spread_vocabulary = false")
    forward_of = _forward_of_backward(step, replica)
    rows = [[(action.stage, action.passes,
              action.pack if action.passes == "F" else forward_of[action.pack]) for action in rank]
            for rank in step.actions(replica)]
    return "".join(",".join(row) + "\n" for row in _in_ticks(rows))


def micro_batches(step, replica=0):
    """By micro-batch its slices: (sequence, begin, end). A whole sequence is one slice."""
    return [slices(pack) for pack in replica_of(step, replica).forward]


def _forward_of_backward(step, replica):
    """By backward MicroPack the forward one with the same slices."""
    plan = replica_of(step, replica)
    if not plan.forward:
        raise InvalidInput(
            f"replica {replica} has no sequences, torch runs at least one micro-batch; plan as "
            "many sequences as there are replicas, or more")
    index_of = {frozenset(slices(pack)): index for index, pack in enumerate(plan.forward)}
    found = []
    for index, pack in enumerate(plan.backward):
        if frozenset(slices(pack)) not in index_of:
            raise InvalidInput(
                f"backward MicroPack {index} of replica {replica} holds other slices than every "
                "forward one, torch's schedules have one micro-batch for both passes; plan with "
                "cuts=\"symmetric\", or run this plan with SlimPack's own runtime (slimpack.train)")
        found.append(index_of[frozenset(slices(pack))])
    return found


def _in_ticks(rows):
    """The actions as text, in columns: each comes after its rank's last one and after what it
    needs."""
    stages = len(rows)
    end_of = {None: 0}  # by output the tick after it
    placed, waiting = [[] for _ in rows], [deque(row) for row in rows]
    while any(waiting):
        before = len(end_of)
        for row, left in zip(placed, waiting, strict=True):
            while left and _needed(left[0], stages) in end_of:
                row += [""] * (end_of[_needed(left[0], stages)] - len(row))
                action = left.popleft()
                row.append("{}{}{}".format(*action))
                end_of[_output(action)] = len(row)
        assert len(end_of) > before, "a checked schedule has no circle"
    width = max(map(len, placed))
    return [row + [""] * (width - len(row)) for row in placed]


def _output(action):
    """The tensor that an action hands to the next stage: I and B both hand over the gradient of the
    inputs."""
    stage, kind, micro_batch = action
    return stage, "B" if kind == "I" else kind, micro_batch


def _needed(action, stages):
    """The output of another stage that an action waits for, or None."""
    stage, kind, micro_batch = action
    if kind == "F":
        return (stage - 1, "F", micro_batch) if stage > 0 else None
    if kind == "W" or stage == stages - 1:
        return None
    return stage + 1, "B", micro_batch
