"""How the processes of a job connect."""

import contextlib
import os

_LAZY = "TORCH_GLOO_LAZY_INIT"


@contextlib.contextmanager
def connecting_late(late=True):
    """For groups of all ranks: made inside, two of their members connect with their first message.
    Otherwise Gloo connects all pairs of a group when that is made, a million of a job of a thousand
    ranks.

    Not for other groups. Until two ranks are connected, Gloo lets a rank wait that begins to receive.
    In the middle of a step the other one may itself wait for this one in another group.
    """
    if not late or _LAZY in os.environ:
        yield
        return
    os.environ[_LAZY] = "1"  # Gloo reads it for each group
    try:
        yield
    finally:
        del os.environ[_LAZY]
