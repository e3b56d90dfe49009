from collections.abc import Callable, Sequence
import enum
import os
import pathlib
from typing import Annotated

import numpy
from numpy.typing import NDArray

from slimpack import InvalidInput as InvalidInput
import slimpack.labelled


version: str = '0.2.0'

def checksum(bytes: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> str:
    """XXH3 of some bytes: 16 hexadecimal digits, as in checkpoints."""

def checkpoint_name(steps: int) -> str:
    """The name of a checkpoint's folder."""

def checkpoints_in(folder: str | os.PathLike) -> list[int]:
    """Steps done at the checkpoints in a folder, ascending."""

def partial_folder(folder: str | os.PathLike, steps: int) -> pathlib.Path:
    """Where a checkpoint is written before it is complete."""

def publish_checkpoint(folder: str | os.PathLike, steps: int) -> None:
    """Gives a complete checkpoint its name; one of that name is replaced."""

def prune_checkpoints(folder: str | os.PathLike, steps: int, keep: int) -> None:
    """
    Leaves the newest checkpoints up to those steps, and none of later steps.
    """

def set_aside_checkpoint(folder: str | os.PathLike, steps: int) -> pathlib.Path | None:
    """
    Renames a checkpoint, so that no run goes on from it by itself. Returns its new path, None where there is no such checkpoint.
    """

def remove_partial_checkpoints(folder: str | os.PathLike) -> None:
    """Removes what is left of runs that ended while they wrote."""

def human_bytes(bytes: int) -> str:
    """As people read it: 118 MiB."""

def human_count(count: float) -> str:
    """As people read it: 12.3 k."""

def human_duration(nanoseconds: int) -> str:
    """As people read it: 12.3 ms, 1 m 23 s."""

def counted(count: int, noun: str) -> str:
    """A count and what is counted: 1 document, 2,048 documents."""

def human_share(share: float) -> str:
    """A share in [0, 1] as people read it: 12.3%."""

def thread_limits() -> str:
    """
    How many threads this process may come to have, and what to do: part of a line.
    """

def require_writable_folder(folder: str | os.PathLike, setting: str) -> None:
    """
    Raises InvalidInput unless a folder can be created, or written if it exists.
    """

class OutputLock:
    """
    Keeps other runs out of a folder, `slimpack train` among them, as long as this object lives.
    """

    def __init__(self, folder: str | os.PathLike, setting: str, warn: Callable[[str], None]) -> None:
        """
        Raises InvalidInput naming the run that holds the lock, RuntimeError where the lock cannot be written. setting: what names the folder. warn: gets a line on a file system without locks.
        """

def read_lengths(file: str | os.PathLike) -> Annotated[NDArray[numpy.int64], dict(shape=(None,), writable=False)]:
    """Reads a length list: one integer a line; # starts a comment."""

def length_statistics(lengths: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> str:
    """Figures of a length list as JSON text."""

def split_documents(lengths: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], context: int) -> Annotated[NDArray[numpy.int64], dict(shape=(None,), writable=False)]:
    """Lengths of consecutive sequences of at most context tokens."""

class IndexedDataset:
    """A Megatron dataset: PREFIX.bin and PREFIX.idx."""

    @staticmethod
    def open(prefix: str | os.PathLike) -> IndexedDataset: ...

    def __len__(self) -> int: ...

    def __getitem__(self, document: int) -> Annotated[NDArray[numpy.int32], dict(shape=(None,), writable=False)]:
        """The tokens of a document."""

    def read(self, document: int, begin: int, end: int) -> slimpack.labelled.LabelledTokens:
        """
        Tokens begin to end of a document that train as one sequence, with their labels.
        """

    def lengths(self) -> Annotated[NDArray[numpy.int64], dict(shape=(None,), writable=False)]:
        """Tokens of every document, in order."""

    def target_share(self) -> float:
        """
        Share of the tokens behind another one that are targets: 1 without a mask, which is read whole.
        """

class Sampler:
    """Draws whole sequences, shuffled anew each epoch."""

    @staticmethod
    def make(lengths: Sequence[Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)]], context: int, step_tokens: int, long_documents: str, weights: Sequence[float], epochs: Sequence[float], cursor: str) -> Sampler:
        """
        lengths: of the documents of each dataset. weights, epochs: of each dataset, or empty. cursor: JSON text with seed, and epoch and position of each dataset.
        """

    def next_step(self) -> tuple[Annotated[NDArray[numpy.int64], dict(shape=(None,), writable=False)], Annotated[NDArray[numpy.int64], dict(shape=(None,), writable=False)], Annotated[NDArray[numpy.int64], dict(shape=(None,), writable=False)]]:
        """
        By sequence of the next step: its document, the tokens before it, its length.
        """

    @property
    def cursor(self) -> str:
        """JSON text: where to go on after the step drawn last."""

def held_out_batches(lengths: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], context: int, step_tokens: int, long_documents: str) -> list[tuple[Annotated[NDArray[numpy.int64], dict(shape=(None,), writable=False)], Annotated[NDArray[numpy.int64], dict(shape=(None,), writable=False)], Annotated[NDArray[numpy.int64], dict(shape=(None,), writable=False)]]]:
    """
    All sequences of documents, in order, in batches of at most step_tokens unless a single one has more; by batch as next_step.
    """

def micro_batches(work: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], tokens: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], ranks: int, per_rank: int, cap: int) -> list[list[list[int]]] | None:
    """
    [rank][micro-batch]: indices of its sequences; None where they find no room.
    """

class MicroPack:
    """Slices that run as one scheduling unit of one pass."""

    @property
    def replicas(self) -> int:
        """Replicas that run it together, usually 1."""

    @property
    def tokens(self) -> int: ...

    def __len__(self) -> int: ...

    @property
    def sequences(self) -> Annotated[NDArray[numpy.int32], dict(shape=(None,), writable=False)]:
        """By slice: index of its sequence in the step's lengths."""

    @property
    def begin(self) -> Annotated[NDArray[numpy.int64], dict(shape=(None,), writable=False)]:
        """
        By slice: its first token in the sequence, which is also the length of its prefix.
        """

    @property
    def end(self) -> Annotated[NDArray[numpy.int64], dict(shape=(None,), writable=False)]:
        """By slice: the token after its last one."""

class ReplicaPlan:
    """One replica's share of a step."""

    @property
    def sequences(self) -> Annotated[NDArray[numpy.int32], dict(shape=(None,), writable=False)]:
        """
        Indices of its sequences, ascending; merged ones are listed on every replica.
        """

    @property
    def forward(self) -> list:
        """
        MicroPacks of the forward pass, in the order in which every stage runs them.
        """

    @property
    def backward(self) -> list:
        """MicroPacks of the backward pass, likewise."""

class Action:
    """One pass of a MicroPack on a stage. As text: "3F7"."""

    @property
    def stage(self) -> int: ...

    @property
    def passes(self) -> str:
        """
        F is forward, B is backward, I and W are the backward's parts for inputs and weights. E, H and G run embedding, head and the embedding's gradient on all ranks together.
        """

    @property
    def pack(self) -> int:
        """
        Index among the forward MicroPacks, of F and E, or among the backward ones.
        """

    def __str__(self) -> str: ...

class Operation(enum.Enum):
    """What a rank does for an action."""

    COMPUTE = 0
    """Runs it."""

    RECEIVE = 1
    """Posts the receive of its input."""

    SEND = 2
    """Posts the send of its output."""

class Instruction:
    """An operation of a rank. As text: "3RECV_F7"."""

    @property
    def operation(self) -> Operation: ...

    @property
    def action(self) -> Action: ...

    def __str__(self) -> str: ...

class Timeline:
    """What every rank does when; times in nanoseconds."""

    @property
    def ranks(self) -> int: ...

    @property
    def replicas(self) -> int: ...

    @property
    def rank(self) -> Annotated[NDArray[numpy.int32], dict(shape=(None,), writable=False)]:
        """By span."""

    @property
    def kind(self) -> Annotated[NDArray[numpy.uint8], dict(shape=(None,), writable=False)]:
        """By span: index in span_kinds."""

    @property
    def pack(self) -> Annotated[NDArray[numpy.int32], dict(shape=(None,), writable=False)]:
        """By span; -1 = none."""

    @property
    def start(self) -> Annotated[NDArray[numpy.int64], dict(shape=(None,), writable=False)]:
        """By span."""

    @property
    def end(self) -> Annotated[NDArray[numpy.int64], dict(shape=(None,), writable=False)]:
        """By span."""

    @property
    def makespan_ns(self) -> int: ...

    @property
    def bubble_ratio(self) -> float: ...

    @property
    def peak_activation_bytes(self) -> Annotated[NDArray[numpy.int64], dict(shape=(None,), writable=False)]:
        """By rank; empty when not known."""

    @staticmethod
    def from_json(text: str, origin: str) -> Timeline: ...

    def to_json(self) -> str: ...

    def to_text(self, width: int) -> str:
        """One line a rank, such as 'rank 0 |FFB.BO|'."""

def timelines_svg(timelines: Sequence[tuple[str, Timeline]]) -> str:
    """SVG of titles and Timelines, one below the other on one time axis."""

span_kinds: list = ...

class StepPlan:
    """A planned step with its costs and prediction."""

    @staticmethod
    def from_json(text: str, origin: str) -> StepPlan: ...

    def to_json(self) -> str: ...

    @property
    def lengths(self) -> Annotated[NDArray[numpy.int64], dict(shape=(None,), writable=False)]: ...

    @property
    def layer_begin(self) -> list[int]: ...

    @property
    def stages_per_rank(self) -> int: ...

    @property
    def spread_vocabulary(self) -> bool: ...

    @property
    def tp(self) -> int: ...

    @property
    def recompute(self) -> list[str]:
        """By layer."""

    @property
    def replicas(self) -> list: ...

    def actions(self, replica: int) -> list[list[Action]]:
        """By rank of the pipeline."""

    def exchanges(self, replica: int) -> list[tuple[str, str, int]]:
        """Giver, taker, keys."""

    def instructions(self, replica: int) -> list[list[Instruction]]:
        """By rank of the pipeline."""

    @property
    def baseline(self) -> str: ...

    @property
    def makespan_ns(self) -> int: ...

    @property
    def lower_bound_ns(self) -> int: ...

    @property
    def gap(self) -> float: ...

    @property
    def bubble_ratio(self) -> float: ...

    @property
    def busy_ns(self) -> Annotated[NDArray[numpy.int64], dict(shape=(None,), writable=False)]: ...

    @property
    def peak_activation_bytes(self) -> Annotated[NDArray[numpy.int64], dict(shape=(None,), writable=False)]: ...

    def figures(self) -> str: ...

    def report(self) -> str: ...

    def predict(self) -> Timeline:
        """Simulates the step."""

    def measured_step(self, timeline: Timeline, step: int, device: str, documents: Sequence[int], begins: Sequence[int]) -> str:
        """
        measured.json, which a report reads beside the plan: the measured Timeline of this step.
        """

    def write_step_files(self, folder: str | os.PathLike, timeline: Timeline, step: int, device: str, documents: Sequence[int], begins: Sequence[int]) -> None:
        """
        Writes timeline.json, plan.json and measured.json of a measured Timeline of this step.
        """

    def step_figures(self, timeline: Timeline, step: int, loss: float, gradient_norm: float, learning_rate: float, targets: int, left_out: int, reading_ns: int, documents: Sequence[int], begins: Sequence[int], planning_ns: int, planning_wait_ns: int) -> str:
        """
        A line of metrics.jsonl of this step, without the time at which it is written.
        """

    def chrome_trace(self, timelines: Sequence[Timeline], documents: Sequence[int], begins: Sequence[int]) -> str:
        """
        Chrome trace of timelines of this step; documents and begins name its sequences.
        """

def fit_packs(points: Sequence[Sequence[float]], window: int, attends: bool = True) -> tuple[str, float]:
    """
    The coefficients that fit (tokens, prefix, slices, figure) best, as JSON text, and their largest error. A window of 0 is none. Where nothing attends, pairs and prefixes cost nothing.
    """

def fit_edge(points: Sequence[Sequence[float]]) -> tuple[str, float]:
    """As fit_packs, of (tokens, figure)."""

def checked_cost(text: str, origin: str) -> str:
    """A cost file as `slimpack profile` writes it, of one that is checked."""

class Planning:
    """Everything that planning a run's steps takes."""

    def __init__(self, toml: str, origin: str, overrides: Sequence[str], folder: str, model_json: str | None) -> None: ...

    def plan(self, lengths: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], context: int, progress: object | None) -> StepPlan: ...

    def compare(self, lengths: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], context: int, planners: Sequence[str], told: Callable) -> tuple[str, str]: ...

    def fit(self, lengths: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], context: int, progress: object | None) -> tuple[str, str]: ...

    def steps(self, documents: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], steps: int, step_tokens: int, context: int) -> list[Annotated[NDArray[numpy.int64], dict(shape=(None,), writable=False)]]: ...

    def layouts(self, steps: Sequence[Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)]], ranks: int, context: int, progress: object | None) -> tuple[str, str]: ...

    def stages_for(self, lengths: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], context: int) -> list[int]: ...

    def with_stages(self, layer_begin: Sequence[int]) -> Planning: ...

    def sequence_costs(self, lengths: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> Annotated[NDArray[numpy.float64], dict(shape=(None,), writable=False)]:
        """
        Nanoseconds of each sequence's forward and backward pass over the whole model.
        """

    @property
    def untrainable(self) -> list[str]: ...

    @property
    def parameters(self) -> int: ...

    @property
    def trained_parameters(self) -> int: ...

    @property
    def ranks(self) -> int: ...

def sweep(toml: str, origin: str, overrides: Sequence[str], folder: str, model_json: str | None, steps: Sequence[Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)]], over: Sequence[str], context: int, progress: object | None) -> tuple[str, str]: ...

def planner_names() -> list[str]:
    """Our planner and the baselines, as compare() names them."""

class MetricsFile:
    """
    metrics.jsonl in a folder. The first line that is added replaces those of its place and of later ones.
    """

    def __init__(self, folder: str | os.PathLike, elsewhere: str) -> None:
        """elsewhere: the remedy where nothing can be written."""

    def add(self, line: str, step: int, evaluation: bool) -> None:
        """
        Writes a JSON object. Raises InvalidInput or RuntimeError where that fails; the file then ends with the line before.
        """

class LogProcess:
    """A child process that sends a run's metrics on while it goes on."""

    def __init__(self, command: Sequence[str], names: Sequence[str], folder: str | os.PathLike, settings: str) -> None:
        """
        command: starts the module slimpack.log. names: of the logs. settings: of the run, as TOML. Waits until the child has its libraries. Raises InvalidInput where one is missing.
        """

    def finish(self, well: bool) -> str:
        """
        Waits a minute at most until the child has sent the rest. Returns what went wrong, or nothing. well: whether training has ended well.
        """

def step_line(line: dict, done_before: int, steps: int, elapsed_ns: int, columns: int | None) -> str:
    """
    A line of a step in metrics.jsonl for people, with as many figures as fit. done_before: steps before this start; steps: of the run; elapsed_ns: of this start.
    """

def evaluation_figures(step: int, loss: float, documents: int, tokens: int, nanoseconds: int, name: str = '') -> str:
    """
    A line of an evaluation in metrics.jsonl, without the time at which it is written. name: of the held-out set, if there are several.
    """

def evaluation_line(line: dict) -> str:
    """A line of an evaluation in metrics.jsonl for people."""

class RunLimits:
    """The limits of one start of a run, whose time begins now."""

    def __init__(self, first_step: int, steps: int, max_tokens: int | None, max_seconds: float | None) -> None:
        """None = no limit."""

    def allow_another(self, steps: int, tokens: int) -> bool:
        """Whether steps and tokens done allow another step."""

    def out_of_time(self, steps: int) -> bool:
        """Whether time is over; never before the first step of a start."""

    def token_limit_reached(self, steps: int, tokens: int) -> str:
        """What ends the run; empty where that does not."""

    def time_limit_reached(self) -> str: ...

    def evaluation_due(self, steps: int, evaluated: int | None, limit: str | None, every: int) -> bool:
        """
        Whether to evaluate now. evaluated: steps done at the last evaluation. limit: what has ended the run. every: steps; 0 = at both ends alone.
        """
