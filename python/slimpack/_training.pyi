from collections.abc import Sequence


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

class RankGroup:
    """Ranks that talk to each other"""

    @property
    def name(self) -> str: ...

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

def process_needs(arguments: TrainArguments, rank: int, ranks: int) -> ProcessNeeds: ...

def train(arguments: TrainArguments, on_step: object | None, on_evaluation: object | None) -> dict:
    """Trains with a thread for each rank."""

def run_process(arguments: TrainArguments, rank: int, groups: Sequence[RankGroup], names: Sequence[str]) -> None:
    """
    Trains as one of the job's processes; names are those of torch's process groups. Ends the process where the job fails.
    """
