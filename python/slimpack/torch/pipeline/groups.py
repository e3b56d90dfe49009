"""Process groups of a rank: those it exchanges hidden states with, and those it sums with."""

import collections
import traceback

import torch
import torch.distributed as dist

from slimpack import InvalidInput
from slimpack.torch.pipeline.failure import ConnectionLost

SLOTS = 8  # messages on their way to one stage in one direction, as schedules are checked with


class Groups:
    """by_name: "F" and "B" carry messages between the stages of a replica, "pipeline" sums over
    them, "replicas" over the ranks of one stage, "tied" over the first and the last stage, "all"
    over all. Groups of one rank are left out."""

    def __init__(self, place, tied):
        """tied: whether the first and the last stage share parameters."""
        world, rank = dist.get_world_size(), dist.get_rank()
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
        members_of = {"F": pipeline, "B": pipeline, "pipeline": pipeline,
                      "replicas": list(range(index, world, stages)), "all": list(range(world))}
        if tied:
            at_an_end = place.is_first or place.is_last
            members_of["tied"] = [pipeline[0], pipeline[-1]] if at_an_end else [rank]
        # Only members take part, so that a job of thousands starts as fast as one of eight. torch
        # names such groups by how many a rank has, so every rank makes as many.
        groups = {name: dist.new_group(members, use_local_synchronization=True)
                  for name, members in members_of.items()}
        self.by_name = {name: group for name, group in groups.items() if len(members_of[name]) > 1}
        self.name = groups["all"].group_name  # the same on all ranks, and of these groups alone
        self._sending = collections.defaultdict(collections.deque)  # by group name

    def close(self):
        """Closes this rank's connections, so that the others notice. They close when nobody holds
        the groups and their messages any more."""
        self._sending.clear()
        for name in list(self.by_name):
            dist.destroy_process_group(self.by_name.pop(name))

    def abort(self):
        """Ends what waits for another rank."""
        for group in list(self.by_name.values()):
            group.abort()

    def has(self, name):
        return name in self.by_name

    def rank_of(self, stage):
        """The global rank of a stage of this replica."""
        return self._first_rank + stage

    def receive(self, tensor, stage, name):
        with _lost(f"stage {stage} (rank {self.rank_of(stage)})"):
            dist.recv(tensor, self.rank_of(stage), group=self.by_name[name])

    def send(self, tensor, stage, name):
        """Sends in the background. Waits for the oldest message where SLOTS are on their way."""
        sending = self._sending[name]
        while len(sending) >= SLOTS:
            self._finish(*sending.popleft()[:2])
        with _lost(f"stage {stage} (rank {self.rank_of(stage)})"):
            message = dist.isend(tensor, self.rank_of(stage), group=self.by_name[name])
        sending.append((message, stage, tensor))  # the tensor stays as long as it is on its way

    def finish_sending(self):
        """Waits until everything has been sent."""
        for sending in self._sending.values():
            while sending:
                self._finish(*sending.popleft()[:2])

    def _finish(self, message, stage):
        with _lost(f"stage {stage} (rank {self.rank_of(stage)})"):
            message.wait()

    def sum(self, tensor, name):
        """In place, over the ranks of a group."""
        if self.has(name):
            with _lost(f"the ranks of group \"{name}\""):
                dist.all_reduce(tensor, group=self.by_name[name])

    def gather_numbers(self, numbers):
        """By rank the integers that it gives, as many on each."""
        if not self.has("all"):
            return [numbers]
        mine = torch.tensor(numbers, device=_device_of(self.by_name["all"]))
        all_of = [torch.empty_like(mine) for _ in range(dist.get_world_size())]
        with _lost("all ranks"):
            dist.all_gather(all_of, mine, group=self.by_name["all"])
        return [of_rank.tolist() for of_rank in all_of]

    def gather_objects(self, item):
        """By rank what it gives."""
        if not self.has("all"):
            return [item]
        items = [None] * dist.get_world_size()
        with _lost("all ranks"):
            dist.all_gather_object(items, item, group=self.by_name["all"])
        return items


class _lost:
    """Turns what a backend says of a broken connection into ConnectionLost."""

    def __init__(self, other):
        self._other = other

    def __enter__(self):
        pass

    def __exit__(self, kind, error, trace):
        if isinstance(error, RuntimeError):
            traceback.clear_frames(trace)  # they hold the group, whose connections are to close
            raise ConnectionLost(f"lost the connection to {self._other}") from None


def _device_of(group):
    return "cuda" if dist.get_backend(group) == "nccl" else "cpu"
