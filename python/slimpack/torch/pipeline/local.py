"""All stages and replicas of a step in one process, one action after another: to try a model or a plan
without launching anything. It runs the same code as an Engine."""

import collections

from slimpack.torch.pipeline.stage import Stage

from slimpack.torch.pipeline.actions import actions_of
from slimpack.torch.pipeline.documents import Documents
from slimpack.torch.pipeline.gradients import added_to_others
from slimpack.torch.pipeline.packs import stage_plan
from slimpack.torch.pipeline.stage_step import StageStep


class LocalEngine:
    """stages: one Stage for each stage of the plan, all on one device. Replicas share them, so gradients
    are sums over replicas as they come."""

    def __init__(self, stages):
        self.stages = stages
        self.peak_bytes = []  # by rank of the last step: most bytes that its stores kept

    def step(self, plan, documents, labels=None):
        """Runs a step; gradients are added to those of the stages' parameters. Returns the loss."""
        device = self.stages[0].device
        replicas = [Documents(plan, replica.sequences, documents, labels, device)
                    for replica in plan.replicas]
        divisor = max(sum(replica.target_count() for replica in replicas), 1)
        parameters = [parameter for stage in self.stages for parameter in stage.parameters()]
        with added_to_others(parameters):
            return self._run(plan, replicas, divisor)

    def _run(self, plan, replicas, divisor):
        loss, self.peak_bytes = 0.0, []
        for number, of_replica in enumerate(replicas):
            steps = [StageStep(stage, stage_plan(plan, number, stage.place.index), of_replica.tokens,
                               of_replica.targets, divisor) for stage in self.stages]
            _run_stages(steps)
            loss += steps[-1].loss.item()
            self.peak_bytes += [step.meter.peak for step in steps]
        self._add_tied()
        return loss

    def _add_tied(self):
        """Both copies of a tied parameter get the gradients of both."""
        ends = self.stages[0].tied_parameters(), self.stages[-1].tied_parameters()
        for pair in zip(*ends, strict=True):
            total = sum(parameter.grad for parameter in pair if parameter.grad is not None)
            for parameter in pair:
                parameter.grad = total.clone()


def _run_stages(steps):
    """Runs every stage as far as it comes, until all are done."""
    waiting = [collections.deque(actions_of(step.plan, step.stage.place)) for step in steps]
    messages = collections.defaultdict(collections.deque)  # by receiving stage and pass
    while any(waiting):
        moved = False
        for step, actions in zip(steps, waiting, strict=True):
            index = step.stage.place.index
            while actions and (actions[0].source is None or messages[index, actions[0].passes]):
                action, moved = actions.popleft(), True
                received = None
                if action.source is not None:
                    received = messages[index, action.passes].popleft()
                sent = step.run(action.passes, action.number, received)
                if action.target is not None:
                    messages[action.target, action.passes].append(sent)
        assert moved, "a checked schedule has no circle"


def stages_of(make_model, layer_begin):
    """The stages of copies of one model; make_model() gives one each time."""
    return [Stage.from_model(make_model(), layer_begin, index)
            for index in range(len(layer_begin) - 1)]
