"""All stages and replicas of a step in one process, one action after another: to try a model or a
plan without launching anything. It runs the same code as an Engine."""

import collections

from slimpack.torch.losses.function import loss_of
from slimpack.torch.losses.tokens import TOKEN
from slimpack.torch.pipeline.documents import Documents, Given
from slimpack.torch.pipeline.experts import MICROPACK, balance_of, require_mode
from slimpack.torch.pipeline.gradients import added_to_others
from slimpack.torch.pipeline.instructions import phases_of
from slimpack.torch.pipeline.loss import StepLoss, sums_by_name
from slimpack.torch.pipeline.packs import COMPUTE, SEND, stage_plan
from slimpack.torch.pipeline.stage import Stage
from slimpack.torch.pipeline.stage_step import StageStep


class LocalEngine:
    """stages: one Stage for each stage of the plan, all on one device. Replicas share them, so
    gradients are sums over replicas as they come. loss, load_balancing: as of Engine."""

    def __init__(self, stages, *, loss=TOKEN, load_balancing=MICROPACK):
        require_mode(load_balancing)
        self.stages, self._loss, self._load_balancing = stages, loss_of(loss), load_balancing
        # By rank of the last step: the most bytes that it kept on the device, and in host memory.
        self.peak_bytes, self.host_peak_bytes = [], []
        self.metrics = {}  # of the last step, by name

    def step(self, plan, documents, labels=None, extras=None):
        """Runs a step; gradients are added to those of the stages' parameters. Returns (loss,
        load-balancing loss). Takes and raises what Engine.step does."""
        steps = self._begin(plan, Given(documents, labels, extras))
        parameters = [parameter for stage in self.stages for parameter in stage.parameters()]
        with added_to_others(parameters):
            self._run(steps)
            self._add_tied()
        every = [step for of_replica in steps for step in of_replica]
        memories = [step.memories for step in every]
        assert all(of.are_empty() for of in memories), "backward passes use everything that was kept"
        self.peak_bytes, self.host_peak_bytes = zip(*(of.peaks() for of in memories), strict=True)
        self.metrics = sums_by_name(step.loss.metrics for step in every)
        return (sum(step.loss.total.item() for step in every),
                sum(step.balance_loss.item() for step in every))

    def _begin(self, plan, given):
        """[replica][stage]: StageSteps."""
        replicas = [Documents(plan, replica.sequences, given, self.stages[0], self._loss.mean)
                    for replica in plan.replicas]
        weight = sum(replica.weight for replica in replicas)
        divisor = self._loss.divisor(weight) or 1.0
        return [[StageStep(stage, stage_plan(plan, number, stage.place.index), own.tokens, own.targets,
                           StepLoss(stage, self._loss, divisor),
                           balance_of(stage, self._load_balancing, plan))
                 for stage in self.stages] for number, own in enumerate(replicas)]

    def _run(self, steps):
        by_count = steps[0][0].counts_routes
        phases = [[phases_of(step.plan, step.stage.place, forwards_first=by_count)
                   for step in of_replica] for of_replica in steps]
        for phase in range(len(phases[0][0])):
            for of_replica, of_stages in zip(steps, phases, strict=True):
                _run_stages(of_replica, [of_stage[phase] for of_stage in of_stages])
            if phase + 1 < len(phases[0][0]):
                balances = [step.balance for of_replica in steps for step in of_replica]
                counts = sum(balance.counts for balance in balances)
                for balance in balances:
                    balance.counts = counts

    def _add_tied(self):
        """Both copies of a tied parameter get the gradients of both."""
        ends = self.stages[0].tied_parameters(), self.stages[-1].tied_parameters()
        for pair in zip(*ends, strict=True):
            gradients = [parameter.grad for parameter in pair if parameter.grad is not None]
            for parameter in pair if gradients else ():  # none: it is frozen
                parameter.grad = sum(gradients[1:], gradients[0].clone())


def _run_stages(steps, instructions):
    """Runs every stage as far as it comes, until all are done."""
    waiting = [collections.deque(of_stage) for of_stage in instructions]
    messages = collections.defaultdict(collections.deque)  # by receiving stage and pass
    outputs = {}  # by stage: of the action that ran last
    while any(waiting):
        moved = False
        for step, left in zip(steps, waiting, strict=True):
            index = step.stage.place.index
            while left and not _lacks_input(left[0], messages[index, left[0].passes]):
                i, moved = left.popleft(), True
                if i.operation == COMPUTE:
                    received = None
                    if i.other is not None:
                        received = messages[index, i.passes].popleft()
                    outputs[index] = step.run(i.passes, i.number, received)
                elif i.operation == SEND:
                    messages[i.other, i.passes].append(outputs.pop(index))
        assert moved, "a checked schedule has no circle"


def _lacks_input(instruction, messages):
    return instruction.operation == COMPUTE and instruction.other is not None and not messages


def stages_of(make_model, layer_begin):
    """The stages of copies of one model; make_model() gives one each time."""
    return [Stage.from_model(make_model(), layer_begin, index, check=False)
            for index in range(len(layer_begin) - 1)]
