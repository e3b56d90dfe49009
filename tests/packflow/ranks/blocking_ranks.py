"""Tests' ranks on the stand-in for NCCL, which send and receive by hand. Each returns whether all
of it ended, or the message of the hang."""

import datetime
import time

import blocking
import torch
import torch.distributed as dist

PATIENCE = datetime.timedelta(seconds=30)  # of what must end, on any machine
HANGS = datetime.timedelta(seconds=2)
A_WHILE = 0.2  # seconds in which something would end that does not wait


def number(value=0.0):
    return torch.tensor([value])


def say(flag):
    dist.group.WORLD.get_group_store().set(flag, "")


def said(flag):
    return dist.group.WORLD.get_group_store().check([flag])


def await_said(flag):
    dist.group.WORLD.get_group_store().wait([flag], PATIENCE)


def until_hang(function):
    try:
        function()
    except RuntimeError as error:
        return str(error)
    finally:
        say(f"end {dist.get_rank()}")
        for rank in range(dist.get_world_size()):  # nobody ends by another's end
            await_said(f"end {rank}")
    return "ended"


def connect(group=None):
    """Passes a number between all members, both ways, as PackFlow does before its first step."""
    members = dist.get_process_group_ranks(group or dist.group.WORLD)
    batch = [dist.P2POp(how, number(), peer, group) for peer in members if peer != dist.get_rank()
             for how in (dist.isend, dist.irecv)]
    for work in dist.batch_isend_irecv(batch):
        work.wait()


def first_send_of_a_pair(way, connected):
    """On rank 0: whether its first and its second send returned before rank 1 received."""
    blocking.take_over(PATIENCE, way)
    if connected:
        connect()
    if dist.get_rank() == 1:
        time.sleep(A_WHILE)
        say("receives")
        dist.recv(number(), 0)
        await_said("sent twice")
        return dist.recv(number(), 0)
    first, early = dist.isend(number(), 1), not said("receives")
    second = dist.isend(number(), 1)
    say("sent twice")  # rank 1 waits for it before its second receive
    first.wait()
    second.wait()
    return early


def first_batch_of_a_group(way):
    """Whether ranks 0 and 1 exchanged before rank 2, which takes no part, came to the group."""
    blocking.take_over(PATIENCE, way)
    rank = dist.get_rank()
    if rank == 2:
        time.sleep(A_WHILE)
        say("comes")
    else:
        batch = [dist.P2POp(dist.isend, number(), 1 - rank),
                 dist.P2POp(dist.irecv, number(), 1 - rank)]
        for work in dist.batch_isend_irecv(batch):
            work.wait()
    early = not said("comes")
    dist.barrier()
    return early


def send_behind_a_receive(way):
    """On rank 2: whether rank 0's send arrived before the receive that rank 0 posted before it."""
    blocking.take_over(PATIENCE, way)
    connect()
    rank, found = dist.get_rank(), number()
    if rank == 0:
        works = [dist.irecv(found, 1), dist.isend(number(7.0), 2)]
    elif rank == 1:
        if way == "eager":
            await_said("looked")
        works = [dist.isend(number(), 0)]
        if way == "lazy":
            return works[0].wait()
    else:
        works = [dist.irecv(found, 0)]
        time.sleep(A_WHILE)
        early = works[0].is_completed()
        say("looked")
    for work in works:
        work.wait()
    return found.item(), early if rank == 2 else None


def send_without_receive():
    """On rank 0: whether its send had ended before rank 1 received."""
    blocking.take_over(PATIENCE, "eager")
    connect()
    if dist.get_rank() == 1:
        await_said("looked")
        return dist.recv(number(), 0)
    work = dist.isend(number(), 1)
    time.sleep(A_WHILE)
    early = work.is_completed()
    say("looked")
    work.wait()
    return early


def synchronise_behind_a_send():
    """On rank 0: whether the device synchronised before rank 1 received."""
    blocking.take_over(PATIENCE, "eager")
    if dist.get_rank() == 1:
        time.sleep(A_WHILE)
        say("receives")
        return dist.recv(number(), 0)
    work = dist.isend(number(), 1)
    blocking.synchronize()
    return not said("receives") or not work.is_completed()


def compute_behind_a_receive(synchronising):
    """Rank 0 multiplies while it receives what rank 1 sends after the product."""
    blocking.take_over(HANGS, "eager", synchronising)
    connect()

    def multiply():
        factor = torch.ones(2, 2)
        if dist.get_rank() == 1:
            await_said("multiplied")
            return dist.send(number(), 0)
        work = dist.irecv(number(), 1)
        torch.mm(factor, factor)
        say("multiplied")
        work.wait()

    return until_hang(multiply)


def both_ways(way, batched):
    """Two ranks receive from each other first and send then."""
    blocking.take_over(HANGS, way)
    if way == "eager":
        connect()
    other = 1 - dist.get_rank()
    mine, theirs = number(), number()

    def exchange():
        if batched:
            works = dist.batch_isend_irecv([dist.P2POp(dist.irecv, theirs, other),
                                            dist.P2POp(dist.isend, mine, other)])
        else:
            works = [dist.irecv(theirs, other), dist.isend(mine, other)]
        for work in works:
            work.wait()

    return until_hang(exchange)


def receives_posted_ahead(way, packs, edges, connected=True):
    """1F1B in which every stage posts two receives ahead in each direction before its first action.

    edges: whether each pair of neighbours has a group for each direction and made it in one order,
    or the pipeline has a group for each direction. connected: whether the members of a group have
    exchanged a number before.
    """
    blocking.take_over(HANGS, way)
    stage, stages = dist.get_rank(), dist.get_world_size()
    groups = {}  # by the receiving stage's neighbour
    for step in (1, -1):
        if edges:
            for low in range(stages - 1):
                group = dist.new_group([low, low + 1])
                if stage in (low, low + 1):
                    groups[step, low] = group
        else:
            group = dist.new_group(list(range(stages)))
            groups.update({(step, low): group for low in range(stages - 1)})

    if connected and way == "eager":
        for group in dict.fromkeys(groups.values()):
            connect(group)

    def group_of(step, sender):
        return groups[step, min(sender, sender + step)]

    def run():
        coming = {1: [], -1: []}

        def post(step):
            if 0 <= stage - step < stages:
                tensor = number()
                coming[step].append(dist.irecv(tensor, stage - step,
                                               group_of(step, stage - step)))

        for step in (1, 1, -1, -1):
            post(step)
        leaving = []
        for step, number_left in one_f_one_b(stage, stages, packs):
            if coming[step]:
                coming[step].pop(0).wait()
                if number_left > 2:
                    post(step)
            if 0 <= stage + step < stages:
                leaving.append(dist.isend(number(), stage + step, group_of(step, stage)))
        for work in leaving:
            work.wait()

    return until_hang(run)


def one_f_one_b(stage, stages, packs):
    """(1 or -1 for forward or backward, how many of the same kind are left with it), in order."""
    ahead = min(packs, stages - stage)
    left = {1: packs, -1: packs}
    order = [1] * ahead + [-1, 1] * (packs - ahead) + [-1] * ahead
    for step in order:
        yield step, left[step]
        left[step] -= 1
