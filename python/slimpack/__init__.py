"""SlimPack: training on documents of very different lengths, at full speed.

    import slimpack

    lengths = slimpack.read_lengths("lengths.txt")
    job = slimpack.Job("llama-3-8b", {"pp": 4, "dp": 4}, "h100")
    step = job.plan(lengths)      # MicroPacks, schedule, predicted time and memory
    print(step)
    print(job.compare(lengths))   # beside what users run today

Planner, simulator, baselines and readers need no torch; `slimpack.train` does. `python -m slimpack`
is the command line.
"""

from slimpack._planner import (
    Action,
    IndexedDataset,
    Instruction,
    InvalidInput,
    MicroPack,
    Operation,
    ReplicaPlan,
    Timeline,
    planner_names,
    version as __version__,
)
from slimpack.comparison import Comparison
from slimpack.fit import Fit
from slimpack.generation import Generation, Generator, generate
from slimpack.job import Job, compare, fit, layout, plan, sweep
from slimpack.labelled import LabelledTokens
from slimpack.lengths import length_statistics, read_lengths, split_documents
from slimpack.runtime import train
from slimpack.search import Layouts, Sweep
from slimpack.step_plan import StepPlan, simulate

__all__ = [
    "Action",
    "Comparison",
    "Fit",
    "Generation",
    "Generator",
    "IndexedDataset",
    "Instruction",
    "InvalidInput",
    "Job",
    "LabelledTokens",
    "Layouts",
    "MicroPack",
    "Operation",
    "ReplicaPlan",
    "StepPlan",
    "Sweep",
    "Timeline",
    "compare",
    "fit",
    "generate",
    "layout",
    "length_statistics",
    "plan",
    "planner_names",
    "read_lengths",
    "simulate",
    "split_documents",
    "sweep",
    "train",
]
