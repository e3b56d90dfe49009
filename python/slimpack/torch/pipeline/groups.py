"""Process groups of a rank: those it exchanges hidden states with, and those it sums with."""

import collections
import contextlib
import traceback

import torch
import torch.distributed as dist

from slimpack import InvalidInput
from slimpack.connections import connecting_late
from slimpack.torch.pipeline.failure import ConnectionLost
from slimpack.torch.pipeline.waiting import GlooWaiting, Waiting

SLOTS = 8  # sends of one direction that wait for their receives, as schedules are checked with
_TAGS = 1 << 31  # Gloo's tags are of 32 bits, with a sign


class Groups:
    """by_name: "F0" and "B0" carry messages between stages 0 and 1 of a replica, and so on;
    "pipeline" sums over its stages, "replicas" over the ranks of one stage, "tied" over the first
    and the last stage, "all" over all. Groups of one rank are left out.

    Messages of two stages and one direction have a group of their own, so that none waits for
    another one that a different rank or action has to send first.
    """

    def __init__(self, place, tied):
        """tied: whether the first and the last stage share parameters."""
        world, rank = dist.get_world_size(), dist.get_rank()
        self.rank = rank
        stages = place.stages
        if world % stages:
            raise InvalidInput(
                f"{world} ranks are no whole replicas of {stages} stages; start a multiple of "
                f"{stages}")
        self.replicas = world // stages
        self.replica, index = divmod(rank, stages)
        if index != place.index:
            raise InvalidInput(
                f"rank {rank} has stage {place.index}, must have stage {index}: rank modulo "
                "stages; load that stage")
        self._first_rank = self.replica * stages
        pipeline = [self.rank_of(stage) for stage in range(stages)]
        members_of = self._edges(place) | {
            "pipeline": pipeline, "replicas": list(range(index, world, stages)),
            "all": list(range(world))}
        if tied:
            at_an_end = place.is_first or place.is_last
            members_of["tied"] = [pipeline[0], pipeline[-1]] if at_an_end else [rank]
        # Only members take part, so that a job of thousands starts as fast as one of eight. torch
        # names such groups by how many a rank has, so every rank makes as many.
        device = _eager_device()
        groups = {}
        for name, members in members_of.items():
            with connecting_late(name == "all"):
                groups[name] = dist.new_group(members, use_local_synchronization=True,
                                              device_id=device)
        self.by_name = {name: group for name, group in groups.items() if len(members_of[name]) > 1}
        self.name = groups["all"].group_name  # the same on all ranks, and of these groups alone
        self._waiting = GlooWaiting() if dist.get_backend() == "gloo" else Waiting()
        self._stage = place.index
        self._receiving = collections.defaultdict(collections.deque)  # by pass
        self._sending = collections.defaultdict(collections.deque)  # by pass
        self._count = collections.Counter()  # messages so far, by group and way

    def _edges(self, place):
        """Ranks of the groups with neighbouring stages: first those of stages 0 and 1, 2 and 3, …,
        then those of stages 1 and 2, 3 and 4, …. A rank that lacks one has a group of its own in
        its place. So ranks that make their groups in this order never wait in a circle."""
        members_of = {}
        for parity in range(min(2, place.stages - 1)):
            lower = place.index - (place.index - parity) % 2
            there = lower >= 0 and lower + 1 < place.stages
            members = [self.rank_of(lower), self.rank_of(lower + 1)] if there else [self.rank]
            members_of |= {f"F{lower}": members, f"B{lower}": members}
        return members_of

    def close(self):
        """Closes this rank's connections, so that the others notice. They close when nobody holds
        the groups and their messages any more."""
        self._receiving.clear()
        self._sending.clear()
        for name in list(self.by_name):
            dist.destroy_process_group(self.by_name.pop(name))

    def abort(self):
        """Ends what waits for another rank."""
        self._waiting.abort()
        for group in list(self.by_name.values()):
            group.abort()

    def has(self, name):
        return name in self.by_name

    def rank_of(self, stage):
        """The global rank of a stage of this replica."""
        return self._first_rank + stage

    def post_receive(self, tensor, stage, passes):
        """Begins to receive from a neighbouring stage. passes: in whose name the message travels."""
        with self._lost_stage(stage):
            message = dist.irecv(tensor, self.rank_of(stage), **self._edge(stage, passes, "receive"))
        self._receiving[passes].append((message, stage, tensor))

    def receive(self, passes):
        """Waits for the message whose receive was posted first; its tensor."""
        message, stage, tensor = self._receiving[passes].popleft()
        self._finish(message, stage)
        return tensor

    def send(self, tensor, stage, passes):
        """Sends in the background. Waits for the oldest message where SLOTS are on their way."""
        sending = self._sending[passes]
        while len(sending) >= SLOTS or sending and sending[0][0].is_completed():
            self._finish(*sending.popleft()[:2])  # which gives its memory back
        with self._lost_stage(stage):
            message = dist.isend(tensor, self.rank_of(stage), **self._edge(stage, passes, "send"))
        sending.append((message, stage, tensor))  # the tensor stays as long as it is on its way

    def _edge(self, stage, passes, way):
        """The group of a message, and its tag, by which Gloo finds the receiver's memory."""
        name = f"{passes}{min(self._stage, stage)}"
        self._count[name, way] += 1
        return {"group": self.by_name[name], "tag": self._count[name, way] % _TAGS}

    def finish_sending(self):
        """Waits until everything has been sent."""
        for sending in self._sending.values():
            while sending:
                self._finish(*sending.popleft()[:2])

    def _finish(self, message, stage):
        with self._lost_stage(stage):
            self._waiting.run(message.wait)

    def _lost_stage(self, stage):
        return lost(f"stage {stage} (rank {self.rank_of(stage)})")

    def sum(self, tensor, name):
        """In place, over the ranks of a group."""
        if self.has(name):
            with lost(f"the ranks of group \"{name}\""):
                work = dist.all_reduce(tensor, group=self.by_name[name], async_op=True)
                self._waiting.run(work.wait)

    def gather_numbers(self, numbers):
        """By rank the integers that it gives, as many on each."""
        if not self.has("all"):
            return [numbers]
        mine = torch.tensor(numbers, device=_device_of(self.by_name["all"]))
        all_of = [torch.empty_like(mine) for _ in range(dist.get_world_size())]
        with lost("all ranks"):
            work = dist.all_gather(all_of, mine, group=self.by_name["all"], async_op=True)
            self._waiting.run(work.wait)
        return [of_rank.tolist() for of_rank in all_of]

    def let_all_hear(self):
        """Waits until every rank has the answer of the last exchange, or has failed. Ranks that end
        because of that answer call this first. Otherwise the end of a fast rank breaks off the
        exchange of a slow one, which then never gets the answer."""
        with contextlib.suppress(ConnectionLost):
            self.gather_objects(None)

    def gather_objects(self, item):
        """By rank what it gives."""
        if not self.has("all"):
            return [item]
        items = [None] * dist.get_world_size()
        group = self.by_name["all"]
        with lost("all ranks"):
            self._waiting.run(lambda: dist.all_gather_object(items, item, group=group))
        return items

    def hand_over(self, item):
        """On all ranks what the first one gives."""
        if not self.has("all"):
            return item
        items = [item]
        group = self.by_name["all"]
        with lost("all ranks"):
            self._waiting.run(lambda: dist.broadcast_object_list(items, src=0, group=group))
        return items[0]


class lost:
    """Turns what a backend says of a broken connection into ConnectionLost."""

    def __init__(self, other):
        self._other = other

    def __enter__(self):
        pass

    def __exit__(self, kind, error, trace):
        if isinstance(error, RuntimeError):
            traceback.clear_frames(trace)  # they hold the group, whose connections are to close
            raise ConnectionLost(f"lost the connection to {self._other}") from None


def _eager_device():
    """The GPU to which groups are bound, so that they connect when they are made. Connections that
    NCCL makes with the first message would wait for the other rank in the middle of a step."""
    if "nccl" not in dist.get_backend_config():
        return None
    return torch.device("cuda", torch.cuda.current_device())


def _device_of(group):
    return "cuda" if dist.get_backend(group) == "nccl" else "cpu"
