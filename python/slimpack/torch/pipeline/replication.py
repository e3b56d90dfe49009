"""How the replicas of a stage come to the same gradients, and what each of them keeps.

Replicas run different numbers of MicroPacks, so they meet once a step: after, or inside, the last
backward pass.
"""

import contextlib
import warnings

import torch
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard

from slimpack import InvalidInput
from slimpack.torch.pipeline.gradients import summed


class Summed:
    """Every replica keeps whole weights, gradients and optimizer states. Gradients are summed after
    the step."""

    norm_group = "pipeline"  # ranks that have all of the model's gradients together
    counted_elsewhere = frozenset()  # parameters whose gradients other ranks of norm_group count

    def __init__(self, stage, groups):
        self._stage, self._groups = stage, groups

    def begin(self, plan):
        pass

    def before_last_backward(self):
        pass

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
    pass gradients are summed and divided among the replicas, layer by layer. Gathering for every
    MicroPack would take as many MicroPacks, in the same order, on all replicas.
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

    def before_last_backward(self):
        self._set_last(True)

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


def replication_of(stage, groups, sharded):
    """The Replication of an engine's stage; sharding its only replica changes nothing."""
    return Sharded(stage, groups) if sharded and groups.has("replicas") else Summed(stage, groups)
