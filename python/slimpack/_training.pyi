from collections.abc import Sequence
import os
import pathlib


class GenerateSettings:
    def __init__(self) -> None: ...

    @property
    def max_new_tokens(self) -> int: ...

    @max_new_tokens.setter
    def max_new_tokens(self, arg: int, /) -> None: ...

    @property
    def stop_tokens(self) -> list[int]: ...

    @stop_tokens.setter
    def stop_tokens(self, arg: Sequence[int], /) -> None: ...

    @property
    def prefill_slice(self) -> int: ...

    @prefill_slice.setter
    def prefill_slice(self, arg: int, /) -> None: ...

    @property
    def temperature(self) -> float: ...

    @temperature.setter
    def temperature(self, arg: float, /) -> None: ...

    @property
    def top_k(self) -> int: ...

    @top_k.setter
    def top_k(self, arg: int, /) -> None: ...

    @property
    def top_p(self) -> float: ...

    @top_p.setter
    def top_p(self, arg: float, /) -> None: ...

    @property
    def min_p(self) -> float: ...

    @min_p.setter
    def min_p(self, arg: float, /) -> None: ...

    @property
    def seed(self) -> int: ...

    @seed.setter
    def seed(self, arg: int, /) -> None: ...

class DraftSettings:
    def __init__(self) -> None: ...

    @property
    def ngrams(self) -> bool: ...

    @ngrams.setter
    def ngrams(self, arg: bool, /) -> None: ...

    @property
    def head(self) -> pathlib.Path: ...

    @head.setter
    def head(self, arg: str | os.PathLike, /) -> None: ...

    @property
    def rule(self) -> str: ...

    @rule.setter
    def rule(self, arg: str, /) -> None: ...

    @property
    def depth(self) -> int | None: ...

    @depth.setter
    def depth(self, arg: int | None, /) -> None: ...

    @property
    def rows(self) -> int | None: ...

    @rows.setter
    def rows(self, arg: int | None, /) -> None: ...

    @property
    def width(self) -> int | None: ...

    @width.setter
    def width(self, arg: int | None, /) -> None: ...

class BatchPrompt:
    def __init__(self, tokens: Sequence[int], seed: int) -> None: ...

class Generator:
    """A model that goes on from tokens"""

    def __init__(self, folder: str | os.PathLike, dtype: str, device: str, draft: DraftSettings) -> None: ...

    @property
    def vocabulary(self) -> int: ...

    @property
    def positions(self) -> int: ...

    def forget(self) -> None: ...

    def use_sparse(self, method: str, measured_heads: Sequence[int]) -> None: ...

    def nats(self, text: Sequence[int], begin: int, settings: GenerateSettings) -> float: ...

    @property
    def records(self) -> int: ...

    def fit_entropy_bins(self) -> None: ...

    def generate(self, prompt: Sequence[int], settings: GenerateSettings, on_token: object | None) -> dict: ...

    def generate_batch(self, prompts: Sequence[BatchPrompt], batch: int, settings: GenerateSettings, on_token: object | None) -> list: ...

def has_fast_bf16() -> bool:
    """Whether this processor multiplies bf16 matrices."""

def model_folder(folder: str | os.PathLike) -> pathlib.Path:
    """The folder, or that of its newest checkpoint."""

def require_threads(count: int) -> None:
    """
    Raises RuntimeError unless this process can have so many threads at the same time.
    """

class RankGroup:
    """Ranks that talk to each other"""

    @property
    def name(self) -> str: ...

    @property
    def kind(self) -> str:
        """what its ranks exchange, such as forward or data"""

    @property
    def sums_gradients(self) -> bool: ...

    @property
    def ranks(self) -> list[int]: ...

    @property
    def on_cpu(self) -> bool:
        """whether all that its ranks exchange is on the CPU"""

class ProcessNeeds:
    @property
    def timeout(self) -> float:
        """seconds"""

    @property
    def device(self) -> str:
        """cpu or cuda"""

    @property
    def groups(self) -> list[RankGroup]:
        """in the order to make them"""

class TrainArguments:
    def __init__(self) -> None: ...

    @property
    def config(self) -> str: ...

    @config.setter
    def config(self, arg: str, /) -> None: ...

    @property
    def overrides(self) -> list[str]: ...

    @overrides.setter
    def overrides(self, arg: Sequence[str], /) -> None: ...

    @property
    def against(self) -> str: ...

    @against.setter
    def against(self, arg: str, /) -> None: ...

    @property
    def resume(self) -> str: ...

    @resume.setter
    def resume(self, arg: str, /) -> None: ...

    @property
    def init(self) -> str: ...

    @init.setter
    def init(self, arg: str, /) -> None: ...

    @property
    def log_command(self) -> list[str]: ...

    @log_command.setter
    def log_command(self, arg: Sequence[str], /) -> None: ...

def process_needs(arguments: TrainArguments, rank: int, ranks: int) -> ProcessNeeds: ...

def train(arguments: TrainArguments, on_step: object | None, on_evaluation: object | None) -> dict:
    """Trains with a thread for each rank."""

def run_process(arguments: TrainArguments, rank: int, groups: Sequence[RankGroup], names: Sequence[str]) -> None:
    """
    Trains as one of the job's processes; names are those of torch's process groups. Ends the process where the job fails.
    """
