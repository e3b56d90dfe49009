"""The runs over a stage's layers that its replicas make together, where they gather weights layer by layer.

Gathering a layer's weights and reducing its gradients take all replicas of a stage, and these have
different numbers of MicroPacks, in orders of their own. So they agree on one sequence of sweeps. A replica
that has no pass for a sweep runs along with an idle one, of a single token that nothing counts.
"""

import collections
from typing import NamedTuple

# Forward through the layers; backward through a graph that was kept; both, one after the other.
UP, DOWN, BOTH = "up", "down", "both"


class Pass(NamedTuple):
    """A pass that a rank computes. sweep: UP, DOWN or BOTH; None = it runs no layer. needs: the ranks whose
    pass of this kind and number comes before."""

    passes: str
    number: int
    sweep: str | None
    needs: tuple[int, ...] = ()


def agreed_sweeps(passes, stages):
    """By rank, for each of its passes the idle sweeps that come before it, and in one more list those that
    follow the last.

    passes: by rank its Passes, in order. Rank replica · stages + stage has that stage.

    The sweeps of all stages are put into one order in which every pass finds its inputs made. Ranks that
    run their parts of this order one after the other, and send in the background, never wait in a circle: of
    all sweeps that have not ended, the first one has all it needs.
    """
    return _Agreement(passes, stages).idle


class _Agreement:
    def __init__(self, passes, stages):
        self._passes = passes
        self._members = [range(stage, len(passes), stages) for stage in range(stages)]
        self._next = [0] * len(passes)
        self._made = set()  # (rank, kind of pass, number)
        self._spare = collections.Counter()  # by rank: idle graphs that an idle DOWN can run through
        self.idle = [[[]] for _ in passes]
        self._skip_what_runs_no_layer()
        while any(self._wanted(rank) for rank in range(len(passes))):
            # Where all replicas want the same there is no idle sweep. Else most of them decide.
            alike = [group for group in self._members if self._wants_alike(group)]
            for group in alike:
                self._sweep(group, self._best(group)[1])
            if not alike:
                able = [group for group in self._members if any(map(self._ready, group))]
                group = max(able, key=self._best)
                self._sweep(group, self._best(group)[1])
            self._skip_what_runs_no_layer()

    def _wanted(self, rank):
        """The rank's next Pass, or None."""
        passes, number = self._passes[rank], self._next[rank]
        return passes[number] if number < len(passes) else None

    def _ready(self, rank):
        """The rank's next Pass if its inputs are there, or None."""
        wanted = self._wanted(rank)
        made = wanted and all((other, wanted.passes, wanted.number) in self._made for other in wanted.needs)
        return wanted if made else None

    def _wants_alike(self, group):
        wanted = [self._ready(rank) for rank in group]
        return None not in wanted and len({of_rank.sweep for of_rank in wanted}) == 1

    def _best(self, group):
        """(how many passes it runs, sweep) of what the group can do that runs most; an idle UP where nothing
        else is possible."""
        wanted = collections.Counter(ready.sweep for ready in map(self._ready, group) if ready)
        possible = [(count, sweep) for sweep, count in wanted.items()
                    if sweep != DOWN or all(self._can_go_down(rank) for rank in group)]
        return max(possible, default=(0, UP))

    def _can_go_down(self, rank):
        ready = self._ready(rank)
        return self._spare[rank] > 0 or ready is not None and ready.sweep == DOWN

    def _sweep(self, group, sweep):
        for rank in group:
            ready = self._ready(rank)
            if ready is not None and ready.sweep == sweep:
                self._finish(rank)
                continue
            self.idle[rank][-1].append(sweep)
            self._spare[rank] += {UP: 1, DOWN: -1, BOTH: 0}[sweep]

    def _finish(self, rank):
        done = self._wanted(rank)
        self._made.add((rank, done.passes, done.number))
        self._next[rank] += 1
        self.idle[rank].append([])

    def _skip_what_runs_no_layer(self):
        for rank in range(len(self._passes)):
            while (ready := self._ready(rank)) is not None and ready.sweep is None:
                self._finish(rank)
