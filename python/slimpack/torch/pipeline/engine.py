"""One rank of a pipeline of processes: runs a planned step."""

import contextlib
import dataclasses
import hashlib
import math
import warnings
from typing import NamedTuple

import numpy as np
import torch
import torch.distributed as dist

from slimpack import InvalidInput
from slimpack.torch.losses.function import loss_of
from slimpack.torch.losses.objectives import value_of
from slimpack.torch.losses.tokens import TOKEN
from slimpack.torch.pipeline.adapter_files import join_shares
from slimpack.torch.pipeline.adapters import require_equal_replicas
from slimpack.torch.pipeline.documents import Documents, Given
from slimpack.torch.pipeline.experts import MICROPACK, balance_of, require_mode
from slimpack.torch.pipeline.failure import Diverged, FailureWatch
from slimpack.torch.pipeline.forward_only import StageEvaluation, StageLogprobs
from slimpack.torch.pipeline.gradients import (
    added_to_others,
    local,
    require_all_trained,
    squared_norm,
    unusable,
)
from slimpack.torch.pipeline.groups import Groups
from slimpack.torch.pipeline.instructions import phases_of
from slimpack.torch.pipeline.loss import StepLoss, sums_by_name
from slimpack.torch.pipeline.packs import COMPUTE, RECEIVE, stage_plan
from slimpack.torch.pipeline.replication import replication_of
from slimpack.torch.pipeline.saving import write_adapter_shard, write_index, write_shard
from slimpack.torch.pipeline.stage_step import StageStep
from slimpack.torch.pipeline.trace import (
    OPTIMIZER,
    REDUCE,
    RUN,
    WAIT_RECEIVE,
    WAIT_SEND,
    Recorder,
    timeline_json,
)


@dataclasses.dataclass(frozen=True)
class StepResult:
    """loss: mean over the targets of the whole step, the same on all ranks; 0 without any.
    balance_loss: of experts, weighted by its coefficient; 0 = the model has none. targets: how many
    there are. weight: what the loss was divided by, which joins the means of several steps: the sum
    of the targets' weights, or the number of sequences with a target; 1 where the loss is a sum.
    peak_bytes: the most that this rank's stores kept for later passes on its device, in bytes;
    host_peak_bytes: in host memory. metrics: of a loss that has some, by name, each a mean (or a sum)
    as the loss is, the same on all ranks."""

    loss: float
    balance_loss: float
    targets: int
    weight: float
    peak_bytes: int
    host_peak_bytes: int
    metrics: dict[str, float] = dataclasses.field(default_factory=dict)


class Engine:
    """Runs steps on this rank. Rank replica · stages + stage of torch.distributed has that stage.

    Every method is called by all ranks. Where a rank fails, the others raise RanksFailed with its
    cause, and the engine is of no further use.
    """

    def __init__(self, stage, *, loss=TOKEN, load_balancing=MICROPACK, shard_replicas=False,
                 reshard_after_forward=False):
        """loss: what the loss of a step or an evaluation is the mean of: "token" = all targets,
            each by its weight; "document" = all sequences that have a target, of which each one's
            loss is the mean over its targets. A document that is split is several sequences. Or
            another loss than cross-entropy: one of slimpack.torch.losses, or a function of Rows,
            which is called on the last stage with a block of targets after the other.
        load_balancing: over which rows experts are balanced, "micropack" or "step" (experts.py).
        shard_replicas: whether replicas share weights and optimizer states out (replication.py).
            Then the stage's parameters are other ones from here on, so make the optimizer
            afterwards.
        reshard_after_forward: whether replicas that share out hold whole weights and gradients of no
            more than two layers at a time. Then every pass gathers weights, and all replicas run
            their passes together.
        """
        require_mode(load_balancing)
        self.stage, self._loss, self._load_balancing = stage, loss_of(loss), load_balancing
        self.groups = Groups(stage.place, bool(stage.division.tied))
        self.watch = FailureWatch(self.groups)
        with self.watch:
            require_equal_replicas(stage, self.groups)
        self._replication = replication_of(stage, self.groups, sharded=shard_replicas,
                                           resharded=reshard_after_forward)
        self._recorder = self._last = None
        self._targets = 0  # of the steps since the last update

    def step(self, plan, documents, labels=None, extras=None):
        """Runs one step. Adds its gradients to those of the stage's parameters, summed over
        replicas.

        plan: a slimpack.StepPlan, the same on all ranks.
        documents: by sequence of the plan token ids, or LabelledTokens; those of this rank's replica
            suffice, and stages between the first and the last need none.
        labels: likewise, for each token itself as a target; -100 is none. By default those of the
            documents. Token ids are their own labels. Weights are those of the documents.
        extras: what the loss takes of every token as a target: by name, and then by sequence, an
            array or tensor [tokens, …], beside the extras of LabelledTokens.

        Raises InvalidInput where the plan, the documents or what the loss returns do not fit.
        """
        with self.watch, added_to_others(self.stage.parameters()):
            begun = self._begin(plan, Given(documents, labels, extras), self._loss)
            self._last = self._run(plan, *begun, self._loss)
        self._targets += self._last.targets
        return self._last

    def evaluate(self, plan, documents, labels=None, extras=None):
        """The loss of a plan's documents: a StepResult without a load-balancing loss. Runs forward
        passes alone.

        Parameters, gradients and the last step's timeline stay as they are. Keys and values are
        freed with a sequence's last slice. Takes and raises what `step` does.
        """
        with self.watch:
            of_stage, own, totals = self._begin(plan, Given(documents, labels, extras), self._loss)
            loss = StepLoss(self.stage, self._loss, totals.divisor or 1.0)
            step = self._run_forward(StageEvaluation(self.stage, of_stage, own.tokens, own.targets, loss))
            self.groups.sum(loss.total, "all")
            return StepResult(loss.total.item(), 0.0, totals.targets, totals.divisor,
                              *step.memories.peaks(), self._metrics(loss))

    def logprobs(self, plan, documents, labels=None, *, adapter=True):
        """By sequence of the plan, on all replicas, the log-probability of every token after those before
        it: a list of tensors [tokens], fp32 or wider, in the host's memory of every rank. 0 for tokens
        that are no targets, such as a sequence's first one.

        adapter: whether those of the model as it is; else those of the model without its adapter, the
            reference that it began with.

        Runs forward passes alone and leaves everything else as it is. Takes and raises what `step` does.
        """
        with self.watch:
            if not adapter and self.stage.adapter is None:
                raise InvalidInput("the model has no adapter, so it is its own reference; leave adapter=False out")
            begun = self._begin(plan, Given(documents, labels), _TOKENS)
            with contextlib.nullcontext() if adapter else self.stage.adapter.disabled(self.stage.model):
                return [logprobs_T for logprobs_T, _ in self._logprobs(begun)]

    def step_on_logprobs(self, plan, documents, objective, labels=None):
        """Runs a step whose loss is no sum over tokens: a function of the log-probabilities of all the
        step's documents. Costs another forward pass, by which these become known.

        objective: takes (logprobs, weights), each a list by sequence of the plan, on all replicas, as
            slimpack.torch.losses.dpo does. It is called on every rank with the same numbers, and has to
            be the same on all. Returns the loss, or (loss, {metric: number}).

        The result's `weight` is 1. Takes and raises what `step` does otherwise.
        """
        with self.watch, added_to_others(self.stage.parameters()):
            of_stage, own, totals = begun = self._begin(plan, Given(documents, labels), _TOKENS)
            value = value_of(objective, *zip(*self._logprobs(begun), strict=True))
            own.weigh(value.coefficients)
            result = self._run(plan, of_stage, own, totals._replace(divisor=1.0), _TOKENS)
            self._last = dataclasses.replace(result, loss=value.loss, metrics=value.metrics)
        self._targets += self._last.targets
        return self._last

    def clip_grad_norm(self, max_norm):
        """Scales all gradients where the norm of the whole model's is above max_norm. Returns the
        norm."""
        with self.watch:
            square = squared_norm(self.stage, self._replication.counted_elsewhere)
            self.groups.sum(square, self._replication.norm_group)
        norm = square.sqrt()
        factor = (max_norm / (norm + 1e-6)).clamp(max=1.0)
        for parameter in self.stage.parameters():
            if parameter.grad is not None:
                local(parameter.grad).mul_(factor.to(parameter.grad.dtype))
        return norm.item()

    def update(self, optimizer, max_norm):
        """Ends a step: clips the gradients (clip_grad_norm), updates the stage's parameters and
        clears their gradients. Returns the norm. The step's timeline shows it.

        Steps without a target have nothing to learn from: a warning says so, parameters stay as they
        are, and the norm is 0. Raises RunFailed on all ranks, before parameters change, where the
        norm is not finite, and afterwards where updated parameters are not. Raises InvalidInput for an
        optimizer that lacks some of the stage's parameters that are trained, or has others.
        """
        with self.watch:
            require_all_trained(self.stage, optimizer)
        targets, self._targets = self._targets, 0
        if targets == 0:
            optimizer.zero_grad()
            if self.groups.rank == 0:
                warnings.warn("the step has no target, so no token is predicted and no weight is "
                              "updated; give documents of two tokens or more, or other labels",
                              stacklevel=2)
            return 0.0
        with self._recorder.span(OPTIMIZER):
            norm = self.clip_grad_norm(max_norm)
            if not math.isfinite(norm):
                raise Diverged(
                    f"the gradient norm is {norm}: training has diverged; lower the learning rate",
                    from_sound_weights=False)
            optimizer.step()
            optimizer.zero_grad()
            if not self.has_finite_weights():
                raise Diverged("the update made weights that are not finite numbers: training has "
                               "diverged; lower the learning rate", from_sound_weights=True)
        return norm

    def has_finite_weights(self):
        """Whether all parameters of all ranks that can change are finite numbers."""
        with self.watch:
            count = unusable(self.stage.stored_parameters().items()).to(self.stage.device)
            self.groups.sum(count, "all")
        return count.item() == 0

    def timeline(self):
        """The last step on all ranks, as JSON text that slimpack draws."""
        with self.watch:
            mine = self._recorder.spans(), self._last.peak_bytes
            spans, peaks = zip(*self.groups.gather_objects(mine), strict=True)
        return timeline_json(spans, list(peaks), self.groups.replicas)

    def save_pretrained(self, folder, *, merged=False):
        """Writes the model where transformers' from_pretrained reads it: the ranks of the first
        replica write a file each. Of a model with an adapter writes that alone, where PEFT reads it.

        merged: writes the model with its adapter merged into its weights; one without as it is.
        """
        alone = self.stage.adapter is not None and not merged
        write, join = (write_adapter_shard, join_shares) if alone else (write_shard, write_index)
        with self.watch:
            shard = write(self.stage, folder, write=self.groups.replica == 0)
            shards = self.groups.gather_objects(shard)
            if self.groups.replica == 0 and self.stage.place.is_first:
                join(self.stage, folder, [of_rank for of_rank in shards if of_rank])
            self.groups.gather_objects(None)  # nobody goes on before the folder is complete

    def _begin(self, plan, given, loss):
        """(this rank's StagePlan, its Documents, the step's _Totals)"""
        self._require_matching(plan)
        replica = self.groups.replica
        of_stage = stage_plan(plan, replica, self.stage.place.index)
        at_an_end = self.stage.place.is_first or self.stage.place.is_last
        sequences = plan.replicas[replica].sequences if at_an_end else ()
        own = Documents(plan, sequences, given, self.stage, loss.mean)
        targets, weight = self._agree(plan, own)
        return of_stage, own, _Totals(targets, loss.divisor(weight))

    def _run(self, plan, of_stage, own, totals, loss):
        place, groups = self.stage.place, self.groups
        self._replication.begin(plan)
        balance = balance_of(self.stage, self._load_balancing, plan)
        loss = StepLoss(self.stage, loss, totals.divisor or 1.0)
        step = StageStep(self.stage, of_stage, own.tokens, own.targets, loss, balance)
        recorder = self._recorder = Recorder(self.stage.device)
        phases = phases_of(of_stage, place, forwards_first=step.counts_routes)
        rank = _Rank(step, groups, recorder)
        for number, instructions in enumerate(phases):
            for i in self._replication.passes(step, instructions):
                rank.run(i)
            with recorder.span(WAIT_SEND):
                groups.finish_sending()
            if number + 1 < len(phases):
                groups.sum(balance.counts, "all")
        assert step.memories.are_empty(), "backward passes use everything that was kept"
        with recorder.span(REDUCE):
            self._replication.reduce()
        losses = torch.stack([loss.total, step.balance_loss])
        groups.sum(losses, "all")
        total, balance_loss = losses.tolist()
        return StepResult(total, balance_loss, totals.targets, totals.divisor, *step.memories.peaks(),
                          self._metrics(loss))

    def _run_forward(self, step):
        """Runs a StageEvaluation and returns it."""
        rank = _Rank(step, self.groups, Recorder(self.stage.device))
        instructions, = phases_of(step.plan, self.stage.place)
        with self._replication.gathered():
            for i in self._replication.passes(step, instructions):
                rank.run(i)
        self.groups.finish_sending()
        assert step.memories.are_empty(), "the last slices use everything that was kept"
        return step

    def _logprobs(self, begun):
        """By sequence of the step (log-probabilities, weights) of its tokens as targets."""
        of_stage, own, _ = begun
        step = self._run_forward(StageLogprobs(self.stage, of_stage, own.tokens, own.targets, None))
        mine = {}
        if self.stage.place.is_last:
            mine = {sequence: (logprobs_T.roll(1), own.targets[sequence].weights_by_token())
                    for sequence, logprobs_T in step.logprobs.items()}
        found = {sequence: of for rank in self.groups.gather_objects(mine) for sequence, of in rank.items()}
        return [found[sequence] for sequence in range(len(found))]

    def _metrics(self, loss):
        """The metrics of a StepLoss over all ranks."""
        if loss.is_plain_cross_entropy:
            return {}
        mine = {name: value.item() for name, value in loss.metrics.items()}
        return sums_by_name(self.groups.gather_objects(mine))

    def _agree(self, plan, own):
        """(targets of the step, their weight); refuses plans that differ between ranks, on all of
        them alike."""
        digest = hashlib.blake2b(plan.to_json().encode(), digest_size=7).digest()
        count, weight = (own.target_count(), own.weight) if self.stage.place.is_last else (0, 0.0)
        bits = int(np.float64(weight).view(np.int64))  # integers alone are gathered
        said = self.groups.gather_numbers([int.from_bytes(digest), count, bits])
        for rank, (other, *_) in enumerate(said):
            if other != said[0][0]:
                self.groups.let_all_hear()
                raise InvalidInput(
                    f"the plans of ranks 0 and {rank} differ; make the plan on one rank and hand "
                    "it over (StepPlan.to_json, StepPlan.from_json)")
        _, counts, bits = zip(*said, strict=True)
        return sum(counts), sum(np.array(bits, np.int64).view(np.float64).tolist())

    def _require_matching(self, plan):
        place = self.stage.place
        if list(plan.layer_begin) != list(place.layer_begin):
            raise InvalidInput(
                f"the plan divides layers as {list(plan.layer_begin)}, the stages hold "
                f"{list(place.layer_begin)}; plan with these stages, or load other stages")
        if len(plan.replicas) != self.groups.replicas:
            raise InvalidInput(
                f"the plan has {len(plan.replicas)} replicas, {dist.get_world_size()} ranks of "
                f"{place.stages} stages are {self.groups.replicas}; start pp · dp ranks")


_TOKENS = loss_of(TOKEN)  # the sum of cross-entropy that a step on log-probabilities comes to


class _Totals(NamedTuple):
    """targets: of the whole step. divisor: of its loss; 0 without targets."""

    targets: int
    divisor: float


class _Rank:
    """Runs the instructions of a step. Sizes are known from the plan, so none is ever exchanged."""

    def __init__(self, step, groups, recorder):
        self._step, self._groups, self._recorder = step, groups, recorder
        self._output_TD = None  # of the action that ran last

    def run(self, i):
        if i.operation == RECEIVE:
            stage = self._step.stage
            rows_TD = torch.empty(i.tokens, stage.width, dtype=stage.dtype, device=stage.device)
            self._groups.post_receive(rows_TD, i.other, i.passes)
        elif i.operation == COMPUTE:
            self._compute(i)
        else:
            with self._recorder.span(WAIT_SEND, i.number):
                self._groups.send(self._output_TD.contiguous(), i.other, i.passes)
                self._output_TD = None

    def _compute(self, i):
        received_TD = None
        if i.other is not None:
            with self._recorder.span(WAIT_RECEIVE, i.number):
                received_TD = self._groups.receive(i.passes)
        with self._recorder.span(RUN[i.passes], i.number):
            self._output_TD = self._step.run(i.passes, i.number, received_TD)
