"""One step of a stage: forward and backward passes of MicroPacks, and the tensors that it keeps
between them."""

import contextlib

import torch

from slimpack.torch.pipeline.experts import STEP
from slimpack.torch.pipeline.inputs import StageInputs
from slimpack.torch.pipeline.memory import Memories
from slimpack.torch.pipeline.packs import BACKWARD, FORWARD
from slimpack.torch.pipeline.sweeps import BOTH, DOWN, UP
from slimpack.torch.pipeline.work import KeyValues, SliceWork
from slimpack.torch.targets import Targets


class StageStep:
    """One stage's state in one step.

    tokens, targets: by sequence of the replica; the first stage needs the tokens, on its device, the
        last one the Targets, in the host's memory.
    loss: a StepLoss, to which the last stage adds.
    balance: the load-balancing loss of experts, or None.
    """

    def __init__(self, stage, stage_plan, tokens, targets, loss, balance=None):
        self.stage, self.plan = stage, stage_plan
        self.tokens, self.targets, self.loss = tokens, targets, loss
        self.balance = balance
        self.memories = Memories(stage_plan.offloaded)
        self._inputs = StageInputs(self.memories.of_inputs())
        self._key_values = KeyValues(stage_plan, stage.division.attention.windows, self.memories)
        self._kept_forwards = set(stage_plan.kept.values())
        self._graphs = {}  # by forward pack: input, output and router logits

    def forward(self, number, rows_TD=None):
        """Runs a forward pack on the rows that the stage before has sent. Returns those for the
        next stage, or None on the last one."""
        pack = self.plan.forward[number]
        if number in self._kept_forwards:
            return self._forward_with_graph(number, pack, rows_TD)
        if rows_TD is not None:
            self._inputs.put(pack, rows_TD)
        place, stop_at = self.stage.place, None
        if self.sweep_of(FORWARD, number) is None:
            self._skip(pack)
            return None
        if place.is_last and not self.counts_routes:
            # Backward computes the rest again, and nobody waits for it.
            stop_at = place.layers[-1] if self.stage.division.observed.last_gathers == 1 else None
        work = self._work(pack, forward=True, stop_at=stop_at)
        with torch.no_grad():
            hidden_TD = self.stage(work, self._ids(pack) if rows_TD is None else rows_TD)
        if self.balance is not None:
            self.balance.after_forward()
        return None if place.is_last else hidden_TD

    def backward(self, number, grad_TD=None):
        """Runs a backward pack on the gradient that the next stage has sent. Adds the gradients of
        the stage's parameters. Returns that for the stage before, or None on the first one."""
        pack, forward = self.plan.backward[number], self.plan.kept.get(number)
        logits = None
        if forward is not None:
            rows, hidden_TD, logits = self._graphs.pop(forward)
        else:
            rows = self._ids(pack)
            if not self.stage.place.is_first:
                rows = self._inputs.take(pack, self.stage.device).requires_grad_()
            hidden_TD = self.stage(self._work(pack, forward=False), rows)
        if self.stage.place.is_last:
            grad_TD = self.loss.add(hidden_TD, self._targets_of(pack))
        roots = [(hidden_TD, grad_TD)]
        if self.balance is not None and (root := self.balance.root(logits)) is not None:
            roots.append((root, None))
        roots = [(root, grad) for root, grad in roots if root.requires_grad]
        with contextlib.nullcontext() if forward is None else self._replaying(pack):
            if roots:  # a stage may be frozen
                torch.autograd.backward(*zip(*roots, strict=True))
        return None if self.stage.place.is_first else rows.grad

    def sweep_of(self, passes, number):
        """How a pass runs over the stage's layers (sweeps.py); None = it runs none."""
        if passes == BACKWARD:
            return DOWN if number in self.plan.kept else BOTH
        if number in self._kept_forwards or not self.stage.place.is_last or self.counts_routes:
            return UP
        return UP if self._stores(self.plan.forward[number]) else None

    @property
    def balance_loss(self):
        return torch.zeros_like(self.loss.total) if self.balance is None else self.balance.loss

    def run(self, passes, number, received):
        return (self.forward if passes == FORWARD else self.backward)(number, received)

    def _forward_with_graph(self, number, pack, rows_TD):
        rows = self._ids(pack) if rows_TD is None else rows_TD.requires_grad_()
        work = self._work(pack, forward=True, elementwise=self.plan.elementwise)
        hidden_TD = self.stage(work, rows)
        logits = None if self.balance is None else self.balance.after_forward()
        self._graphs[number] = rows, hidden_TD, logits
        return None if self.stage.place.is_last else hidden_TD.detach()

    @contextlib.contextmanager
    def _replaying(self, pack):
        """Within it the graph that a forward pass has kept of the pack may run layers again."""
        if not self.plan.elementwise:
            yield
            return
        work = self._work(pack, forward=False, replays=True)
        with self.stage.working_on(work, self.stage.device):
            yield
        for part in pack.slices:  # which layers without gradients did not read again
            self._key_values.release(BACKWARD, part)

    def _work(self, pack, **how):
        return SliceWork(pack, self._key_values, self.stage.division.attention, **how)

    @property
    def counts_routes(self):
        """Whether backward passes need what all forward passes have counted."""
        return self.balance is not None and self.balance.mode == STEP

    def _stores(self, pack):
        """Whether later slices need keys, values or states of the pack."""
        return any(self._key_values.is_needed(part) for part in pack.slices)

    def _skip(self, pack):
        for part in pack.slices:
            self._key_values.release(FORWARD, part)

    def _ids(self, pack):
        return torch.cat(_of_pack(self.tokens, pack)) if self.stage.place.is_first else None

    def _targets_of(self, pack):
        return Targets.joined(_of_pack(self.targets, pack))


def _of_pack(by_sequence, pack):
    return [by_sequence[sequence][begin:end] for sequence, begin, end in pack.slices]
