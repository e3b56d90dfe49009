"""The lock of a run's output folder, which `slimpack train` takes, too."""

from slimpack import _planner
from slimpack.torch.pipeline.failure import disk_failures

_SETTING = "output"  # the Trainer's


def lock_output(engine, folder, warn):
    """Locks a folder for this job, and makes it where it is missing. The first rank gets an object
    that keeps other runs out as long as it lives; the others get None.

    warn: called with a line where the file system has no locks. Raises InvalidInput on the first
    rank where another run uses the folder, or nothing can be written to it.
    """
    lock = None
    with engine.watch:
        if engine.groups.rank == 0:
            _planner.require_writable_folder(folder / "checkpoints", _SETTING)
            with disk_failures():
                lock = _planner.OutputLock(folder, _SETTING, warn)
        engine.groups.hand_over(None)  # nobody goes on without it
    return lock
