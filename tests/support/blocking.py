"""The stand-in for NCCL on the CPU (blocking/blocking_backend.h): a backend named "blocking"."""

import sys

import torch.distributed as dist
from processes import BUILD

sys.path.insert(0, str(BUILD / "tests" / "support" / "blocking"))
import blocking_backend  # noqa: E402

# When communicators are made. Groups with a device_id are eager; torch refuses one for the CPU, so
# here all groups are made one way.
WAYS = ("lazy", "eager")
SYNCHRONISING = ("none", "first", "every")  # calls of operators that synchronise the device


def register(patience, way, synchronising):
    """Makes the backend known to torch. patience: a timedelta; what blocks for longer hangs, and
    ends with a message that says what waits for what. way: of WAYS; "forgetful": eager, and messages
    of one element do not connect, as if nobody had sent them before the first step. synchronising: of
    SYNCHRONISING."""
    def make(options, _):
        gloo = dist.ProcessGroupGloo(options.store, options.group_rank, options.group_size,
                                     timeout=4 * patience)  # the stand-in's message comes first
        ranks = options.global_ranks_in_group or list(range(options.group_size))
        return blocking_backend.make(gloo, options.store, options.group_id[:6], ranks, patience,
                                     blocking_backend.Way.__members__[way.upper()])

    dist.Backend.register_backend("blocking", make, extended_api=True, devices=["cpu"])
    calls = blocking_backend.Synchronising.__members__[synchronising.upper()]
    blocking_backend.set_synchronising(calls)


def synchronize():
    """Waits for all that this process has posted, as a device does that synchronises."""
    blocking_backend.synchronize("the device")


def take_over(patience, way="lazy", synchronising="none"):
    """This process's job goes on with the stand-in, without the process groups it had."""
    store, rank, ranks = dist.group.WORLD.get_group_store(), dist.get_rank(), dist.get_world_size()
    # A rank that still connects to the old groups fails if another one closes them.
    store.set(f"leaves {rank}", "")
    store.wait([f"leaves {other}" for other in range(ranks)])
    dist.destroy_process_group()
    register(patience, way, synchronising)
    dist.init_process_group("blocking", rank=rank, world_size=ranks,
                            store=dist.PrefixStore("blocking", store))
