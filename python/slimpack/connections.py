"""How the processes of a job connect."""

import contextlib
import os

_LAZY = "TORCH_GLOO_LAZY_INIT"

# The most blocks of a kernel of NCCL, by what a group exchanges (RankGroup.kind). A kernel that waits
# for a message keeps its blocks, and none of them shares a multiprocessor with computation: by itself
# NCCL takes up to 32 for each of the four edges of a stage, of an H100's 132. NCCL before 2.18 knows no
# such bound for messages; NCCL_MAX_P2P_NCHANNELS is its own.
_MOST_BLOCKS = {"forward": 4, "backward": 4, "ring forward": 4, "ring backward": 4,
                "data": 8, "data in node": 8, "data across nodes": 8}


def nccl_options(kind, timeout):
    """Options of torch for a group's NCCL, new ones for each call: torch writes into them. kind: of
    the group (RankGroup). Its stream goes first, or a message would wait behind a product that fills
    the GPU."""
    import torch.distributed as dist

    options = dist.ProcessGroupNCCL.Options(is_high_priority_stream=True)
    options._timeout = timeout  # torch warns where it differs from the group's own
    if kind in _MOST_BLOCKS:
        options.config.max_ctas = _MOST_BLOCKS[kind]
    return options


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
