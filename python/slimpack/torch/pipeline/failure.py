"""When a rank fails, all ranks end with its cause.

1. The rank that fails writes its cause into the job's store and closes its connections.
2. A rank whose connection breaks asks the store for the cause, and closes its own connections.
3. A thread of each rank asks the store, too, and aborts the rank's groups: a GPU that waits for
   another one does not notice that its connection is gone, nor does Gloo in the middle of a message.
"""

import contextlib
import threading
import time

import torch.distributed as dist

_END = "slimpack/end"  # the rank that tells, and the exit code
_ENDED = "slimpack/ended"  # how many ranks know
_PAUSE = 0.5  # seconds between two looks at the store
_GRACE = 2.0  # seconds in which a rank that failed by itself has written its cause


class RunFailed(RuntimeError):
    """Training cannot go on; the message says why in one line."""


@contextlib.contextmanager
def disk_failures():
    """Makes RunFailed of a RuntimeError, as the compiled module raises it where a disk fails."""
    try:
        yield
    except RuntimeError as error:
        raise RunFailed(str(error)) from None


class Diverged(RunFailed):
    """Training has no finite gradient, loss or update.

    from_sound_weights: whether the weights before were sound, so that a smaller update keeps them so.
        If not, every step from them fails, whatever the learning rate is.
    """

    def __init__(self, message, from_sound_weights):
        super().__init__(message)
        self.from_sound_weights = from_sound_weights


class RanksFailed(RunFailed):
    """Another rank failed; the message is that rank's cause."""


class ConnectionLost(Exception):
    """A message to or from another rank did not get through."""


class FailureWatch:
    """Inside it as a context, an engine's ranks communicate through `groups` (groups.py)."""

    def __init__(self, groups):
        self._groups = groups
        self._store = dist.group.WORLD.get_group_store()
        self._rank, self._key = dist.get_rank(), f"slimpack/failure/{groups.name}"
        self._running, self._done = threading.Event(), False
        threading.Thread(target=self._look, daemon=True).start()

    def __enter__(self):
        self._running.set()
        return self

    def __exit__(self, kind, error, trace):
        self._running.clear()
        if error is None:
            return
        lost = isinstance(error, ConnectionLost)
        cause = self._cause_of(error, lost)
        self._done = True
        self._groups.close()
        if lost:
            raise RanksFailed(cause) from None

    def _cause_of(self, error, lost):
        """The cause that ends the job: this rank's error, or the cause that another rank has written
        before."""
        end = time.monotonic() + (_GRACE if lost else 0)
        own = f"rank {self._rank}: {error}".strip().split("\n")[0]
        try:
            while time.monotonic() < end and not self._store.check([self._key]):
                time.sleep(_PAUSE / 5)
            return self._store.compare_set(self._key, "", own).decode()
        except RuntimeError:  # the store went down with its rank
            return own

    def _look(self):
        while not self._done:
            self._running.wait()
            try:
                failed = self._store.check([self._key])
            except RuntimeError:
                return  # so do the connections
            if failed:
                self._groups.abort()
                return
            time.sleep(_PAUSE)


def end_of_job(error, code):
    """For a rank that ends with an error: (whether it is the one that tells, the exit code of all
    ranks).

    A rank that failed by itself goes before those that RanksFailed.
    """
    store, rank = dist.group.WORLD.get_group_store(), dist.get_rank()
    end = time.monotonic() + (_GRACE if isinstance(error, RanksFailed) else 0)
    try:
        while time.monotonic() < end and not store.check([_END]):
            time.sleep(_PAUSE / 5)
        teller, code = map(int, store.compare_set(_END, "", f"{rank} {code}").decode().split())
        ended = store.add(_ENDED, 1)
        end = time.monotonic() + _GRACE
        while rank == 0 and ended < dist.get_world_size() and time.monotonic() < end:
            time.sleep(_PAUSE / 50)  # the store goes down with this rank, others have yet to ask it
            ended = store.add(_ENDED, 0)
    except RuntimeError:  # the store went down with its rank
        return True, code
    return teller == rank, code
