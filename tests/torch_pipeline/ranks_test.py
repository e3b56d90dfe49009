"""The ranks that tests share: functions run one after another, and a failure ends one alone."""

import os
import signal

import torch
import torch.distributed as dist
from ranks import Ranks


def summed(number):
    """(the sum over the ranks of number + rank, this process)."""
    total = torch.tensor(number + dist.get_rank())
    dist.all_reduce(total)
    return total.item(), os.getpid()


def fail_on_rank_1(how):
    """The other rank waits for it."""
    if dist.get_rank() == 1:
        if how == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        raise ValueError("no number")
    dist.barrier()


def test_functions_run_in_the_same_processes_until_one_fails():
    with Ranks(2) as ranks:
        (first, one), (second, other) = ranks.run(summed, 10)
        assert (first, second) == (21, 21) and one != other  # 10 + 0 + 10 + 1
        assert ranks.run(summed, 20) == [(41, one), (41, other)]
        for how, expected in (("raise", ("ValueError", "no number")), ("kill", ("Killed", ""))):
            waiting, (failed, found) = ranks.outcomes(fail_on_rank_1, how)
            assert failed and found[:2] == expected
            assert waiting[0] and waiting[1][0] == "RuntimeError"
            (total, new), _ = ranks.run(summed, 30)
            assert total == 61 and new not in (one, other)
