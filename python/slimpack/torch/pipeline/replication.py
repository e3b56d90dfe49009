"""How the replicas of a stage come to the same gradients, and what each of them keeps.

Replicas run different numbers of MicroPacks, so they meet once a step: after, or inside, the last
backward pass. Only replicas that keep no whole weights meet in every pass.
"""

import collections
import contextlib
import itertools
import warnings

import torch
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard

from slimpack import InvalidInput
from slimpack.export.slices import Slice
from slimpack.labelled import IGNORED
from slimpack.torch.pipeline.gradients import summed
from slimpack.torch.pipeline.packs import BACKWARD, COMPUTE, Pack, StagePlan
from slimpack.torch.pipeline.stage_step import StageStep
from slimpack.torch.pipeline.sweeps import DOWN, UP, Pass, agreed_sweeps
from slimpack.torch.targets import Targets


class Summed:
    """Every replica keeps whole weights, gradients and optimizer states. Gradients are summed after
    the step."""

    norm_group = "pipeline"  # ranks that have all of the model's gradients together
    counted_elsewhere = frozenset()  # parameters whose gradients other ranks of norm_group count

    def __init__(self, stage, groups):
        self._stage, self._groups = stage, groups

    def begin(self, plan):
        pass

    def passes(self, _, instructions):
        """The Instructions, as the engine runs them; does between them what replicas need."""
        yield from instructions

    def gathered(self):
        """A context in which every rank has whole weights."""
        return contextlib.nullcontext()

    def reduce(self):
        """Gradients become those of the whole step."""
        summed(self._stage.parameters(), self._groups, "replicas")
        summed(self._stage.tied_parameters(), self._groups, "tied")


class Sharded:
    """Between steps every replica keeps a share of weights, gradients and optimizer states (FSDP2).

    A step gathers each layer's weights once and keeps them to its end. Inside the last backward
    pass gradients are summed and divided among the replicas, layer by layer.
    """

    norm_group = "all"

    def __init__(self, stage, groups):
        if not hasattr(FSDPModule, "set_reduce_scatter_unused_params"):
            raise InvalidInput(
                f"torch {torch.__version__} shares weights out among replicas only if all of them use "
                "the same parameters; take torch 2.13, or leave shard_replicas out")
        self._stage, self._groups = stage, groups
        # A stage's rows are a view of what its model returns. Nobody writes into them.
        warnings.filterwarnings("ignore", "FSDP2-wrapped module .* returned a view", UserWarning)
        mesh = DeviceMesh.from_group(groups.by_name["replicas"], stage.device.type)
        self._modules = [*stage.own_layers(), stage]
        # FSDP2 gathers parameters of one dtype. The others, a few routers and sinks, stay whole.
        self._whole = [p for p in stage.parameters() if p.dtype != stage.dtype]
        sums = torch.float64 if stage.dtype == torch.float64 else torch.float32
        self.counted_elsewhere = frozenset(self._whole if groups.replica else ())
        for module in self._modules:
            fully_shard(module, mesh=mesh, reshard_after_forward=False,
                        mp_policy=MixedPrecisionPolicy(reduce_dtype=sums),
                        ignored_params=set(self._whole))
            module.set_gradient_divide_factor(1.0)  # a loss is divided by the whole step's targets
            module.set_force_sum_reduction_for_comms(True)
        # Replicas may route to different experts, or have no target in the last pass.
        stage.set_reduce_scatter_unused_params(True)

    def begin(self, plan):
        """Raises InvalidInput for a plan in which a replica has no backward pass to meet in."""
        for number, replica in enumerate(plan.replicas):
            if not len(replica.backward):
                raise InvalidInput(
                    f"replica {number} has no sequence, sharded replicas need one each; give the "
                    f"step at least {len(plan.replicas)} sequences")
        self._set_last(False)

    def passes(self, _, instructions):
        last = max((i.number for i in instructions if i.passes == BACKWARD), default=None)
        for i in instructions:
            if (i.operation, i.passes, i.number) == (COMPUTE, BACKWARD, last):
                self._set_last(True)
            yield i

    @contextlib.contextmanager
    def gathered(self):
        """A context in which every rank has whole weights. Replicas may run different numbers of
        forward passes inside, or none."""
        for module in self._modules:
            module.unshard()
        yield
        for module in self._modules:
            module.reshard()

    def reduce(self):
        """Gradients of shares became those of the whole step; others are not complete yet. Weights of
        a stage in which nothing trains are still whole, since no backward pass ran."""
        for module in self._modules:
            module.reshard()
        summed(self._whole, self._groups, "replicas")
        summed(self._stage.tied_parameters(), self._groups, "tied")

    def _set_last(self, last):
        self._stage.set_requires_gradient_sync(last)
        self._stage.set_reshard_after_backward(last)
        self._stage.set_is_last_backward(last)


class Resharded(Sharded):
    """Replicas that hold whole weights and gradients of two layers at a time, besides those before and
    after the layers, which a pass holds to its end.

    Every pass gathers weights and sums gradients, layer by layer, and all replicas of a stage run the
    agreed sequence of sweeps (sweeps.py). Gradients of several passes add up in fp32 or wider.
    """

    def __init__(self, stage, groups):
        super().__init__(stage, groups)
        *layers, whole = self._modules
        for layer in layers:
            layer.set_reshard_after_forward(True)
        # FSDP2 would guess by the order of earlier passes, and replicas would guess differently.
        for before, after in itertools.pairwise([whole, *layers]):
            before.set_modules_to_forward_prefetch([after])
        for before, after in itertools.pairwise([whole, *reversed(layers)]):
            before.set_modules_to_backward_prefetch([after])
        layers[0].set_modules_to_backward_prefetch([layers[0]])
        self._sums = {}  # by parameter of fewer than 32 bits

    def begin(self, plan):
        """Takes any plan: a replica without a sequence runs idle passes alone."""
        self._set_last(True)

    def passes(self, step, instructions):
        first = self._groups.rank_of(0)
        mine = [Pass(i.passes, i.number, step.sweep_of(i.passes, i.number),
                     () if i.other is None else (first + i.other,))
                for i in instructions if i.operation == COMPUTE]
        of_ranks = self._groups.gather_objects(mine)
        before = iter(agreed_sweeps(of_ranks, self._stage.place.stages)[self._groups.rank])
        idle, own = Idle(step), iter(mine)
        for i in instructions:
            sweep = None
            if i.operation == COMPUTE:
                self._run_idle(idle, next(before))
                sweep = next(own).sweep
            if sweep is not None:
                self._stage.unshard()
            yield i
            if sweep is not None:
                self._end_pass()
        self._run_idle(idle, next(before))

    def gathered(self):
        return contextlib.nullcontext()

    def reduce(self):
        for parameter, total in self._sums.items():
            parameter.grad = total.to(parameter.dtype)
        self._sums.clear()
        super().reduce()

    def _run_idle(self, idle, sweeps):
        for sweep in sweeps:
            self._stage.unshard()
            idle.run(sweep)
            self._end_pass()

    def _end_pass(self):
        # Reshards, also where a pass has stopped inside a layer, which FSDP2 takes for a failure.
        self._stage.reset_iter_state()
        for parameter in self._stage.parameters():
            if parameter.grad is None or parameter.dtype.itemsize >= 4:
                continue
            gradient, parameter.grad = parameter.grad.float(), None
            self._sums[parameter] = self._sums[parameter] + gradient if parameter in self._sums else gradient


class Idle:
    """Runs idle sweeps: passes of one token without a target, which add nothing to any sum."""

    _PLAN = StagePlan([Pack((Slice(0, 0, 1),))], [Pack((Slice(0, 0, 1),))], [], {0: 0})

    def __init__(self, step):
        self._stage, self._loss = step.stage, step.loss
        self._graphs = collections.deque()  # StageSteps between their two passes

    def run(self, sweep):
        if sweep != DOWN:
            self._graphs.append(self._forward())
        if sweep != UP:
            self._backward(self._graphs.popleft() if sweep == DOWN else self._graphs.pop())

    def _forward(self):
        stage = self._stage
        tokens = {0: torch.zeros(1, dtype=torch.int64, device=stage.device)}
        targets = {0: Targets(torch.tensor([IGNORED]))}
        step = StageStep(stage, self._PLAN, tokens, targets, self._loss)
        step.forward(0, None if stage.place.is_first else self._rows())
        if stage.division.routers is not None:
            stage.division.routers.take()
        return step

    def _backward(self, step):
        step.backward(0, None if self._stage.place.is_last else self._rows())

    def _rows(self):
        return torch.zeros(1, self._stage.width, dtype=self._stage.dtype, device=self._stage.device)


def replication_of(stage, groups, *, sharded, resharded):
    """The replication of an engine's stage; sharding its only replica changes nothing."""
    if resharded and not sharded:
        raise InvalidInput("reshard_after_forward is for replicas that share weights out; give "
                           "shard_replicas=True, too, or leave it out")
    if not sharded or not groups.has("replicas"):
        return Summed(stage, groups)
    return Resharded(stage, groups) if resharded else Sharded(stage, groups)
