"""Long documents in slices: keys and values go on from slice to slice, and backward passes compute each slice
again. It is the work of a pipeline with one stage, whose loss is the sum over targets."""

import copy

import torch
from torch import nn

from slimpack import InvalidInput
from slimpack.export.slices import Slice
from slimpack.labelled import LabelledTokens
from slimpack.torch.losses.function import loss_of
from slimpack.torch.losses.tokens import TOKEN
from slimpack.torch.pipeline.forward_only import StageEvaluation
from slimpack.torch.pipeline.gradients import added_to_others
from slimpack.torch.pipeline.layers import find_layers
from slimpack.torch.pipeline.loss import StepLoss
from slimpack.torch.pipeline.packs import Pack, StagePlan
from slimpack.torch.pipeline.stage import Stage
from slimpack.torch.pipeline.stage_step import StageStep
from slimpack.torch.targets import weighted_targets_of


class SlicedDocuments:
    """Runs documents of a transformers model in slices of some tokens. The model's own modules stay as they
    are: a stage is made of others, which have the same parameters.

    Raises InvalidInput for a model that is not exact in slices, as slimpack.torch.check tells.
    """

    def __init__(self, model, slice_tokens):
        self.slice_tokens = slice_tokens
        for name, module in model.named_modules():
            if isinstance(module, nn.Dropout) and module.p > 0:
                raise InvalidInput(f"{name} drops {module.p} of its numbers, others when a slice is computed again; set it to "
                                   "0, or leave max_slice_tokens out")
        self._stage = Stage.from_model(_with_the_same_parameters(model), [0, len(find_layers(model)[1])], 0)

    def add_gradients(self, batch, divisor):
        """Adds the gradients of a document's loss / divisor. Returns that loss."""
        step, slices = self._step(StageStep, batch, divisor)
        with added_to_others(self._stage.parameters()):
            for number in range(slices):
                step.forward(number)
            for number in range(slices):  # from the last slice to the first
                step.backward(number)
        return step.loss.total

    def loss(self, batch):
        """The sum of a document's losses."""
        step, slices = self._step(StageEvaluation, batch, 1.0)
        for number in range(slices):
            step.forward(number)
        return step.loss.total

    def _step(self, kind, batch, divisor):
        """A step with one sequence. batch: of PackedCollator, of one document."""
        ids, labels = batch["input_ids"][0], batch["labels"][0]
        begins = range(0, len(ids), self.slice_tokens)
        packs = [Pack((Slice(0, begin, min(begin + self.slice_tokens, len(ids))),)) for begin in begins]
        targets = weighted_targets_of(LabelledTokens(ids.cpu(), labels.cpu()))
        plan = StagePlan(forward=packs, backward=packs[::-1], order=[], kept={})
        loss = StepLoss(self._stage, loss_of(TOKEN), divisor)
        return kind(self._stage, plan, {0: ids.to(self._stage.device)}, {0: targets}, loss), len(packs)


def _with_the_same_parameters(model):
    """Other modules with the parameters and buffers of a model, without what was put around its forward."""
    shared = {id(tensor): tensor for tensor in (*model.parameters(), *model.buffers())}
    other = copy.deepcopy(model, shared)
    vars(other).pop("forward", None)
    return other
