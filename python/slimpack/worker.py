"""One process of a training run over several: started by torchrun, once for each rank.

    torchrun --nproc-per-node 8 -m slimpack.worker run.toml
    torchrun --nnodes 2 --nproc-per-node 8 --rdzv-backend c10d --rdzv-endpoint HOST:29500 \\
        -m slimpack.worker run.toml

The run configuration is that of `slimpack train`; pp × dp × tp must be the number of processes.
"""

import datetime
import os

from slimpack import InvalidInput, runtime
from slimpack.command_line import INVALID, end, exit_code, say
from slimpack.numbers import INT32
from slimpack.one_line_parser import OneLineParser
from slimpack.text.errors import require_text


FIRST_STEP = 4  # timeouts that replicas give each other for it on GPUs


def parse(argv):
    parser = OneLineParser(prog="python -m slimpack.worker", description=__doc__)
    parser.add_argument("config", metavar="RUN.toml", help="run configuration")
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="SECTION.KEY=VALUE",
        help="override a key of the configuration; may be given several times",
    )
    parser.add_argument(
        "--against",
        choices=["packed"],
        default="",
        help="at the end, run the last step's documents by turns as planned and this way, and compare",
    )
    parser.add_argument(
        "--resume",
        default="",
        metavar="auto|CHECKPOINT",
        help="go on from a checkpoint; auto = the newest in output.dir, or from the beginning where there is none",
    )
    parser.add_argument(
        "--init",
        default="",
        metavar="FOLDER",
        help="start from the weights in this folder of a Hugging Face model",
    )
    parser.add_argument(
        "--log",
        default="",
        metavar="NAMES",
        help="send the metrics to these programs while the run goes on, as output.log: wandb, tensorboard, or "
        "both with a comma between them",
    )
    options = parser.parse_args(argv)
    if options.log:
        options.set.append(f"output.log={options.log}")
    for name in ("config", "resume", "init"):
        require_text(name, getattr(options, name))
    for override in options.set:
        require_text("--set", override)
    return options


def place():
    """Rank and number of processes, which torchrun puts into the environment."""
    missing = [name for name in ("RANK", "WORLD_SIZE") if name not in os.environ]
    if missing:
        raise InvalidInput(
            f"{' and '.join(missing)} not in the environment; start the workers with torchrun "
            "(slimpack train runs all ranks in one process)"
        )
    for name in ("RANK", "WORLD_SIZE"):
        text = os.environ[name]
        if not text.isdecimal() or len(text) > 10 or int(text) > INT32:
            raise InvalidInput(f"{name} is '{text}' in the environment, must be a whole number; start the "
                               "workers with torchrun")
    return int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])


def connect(groups, device, timeout):
    """A process group for each of the rank's groups; the names that torch gave them."""
    import torch
    import torch.distributed as dist

    from slimpack.connections import connecting_late, nccl_options

    with connecting_late():
        # The runtime's own messages stay on the CPU.
        dist.init_process_group("gloo" if device == "cpu" else "cpu:gloo,cuda:nccl", timeout=timeout)
    # Only members take part, so that a job of thousands starts as fast as one of eight. With device_id
    # NCCL makes a group's communicator at once. It still connects two members with their first message,
    # which the engine sends before its first step (process_transfers.h).
    gpu = None if device == "cpu" else torch.device("cuda", torch.cuda.current_device())
    names = []
    for group in groups:
        on_gpu = gpu is not None and not group.on_cpu
        # Until a step has run, nobody knows how long one takes (ProcessJob goes on from there).
        patience = FIRST_STEP * timeout if on_gpu and group.sums_gradients else timeout
        # Replicas exchange nothing on the CPU when they train on GPUs.
        with connecting_late(group.on_cpu or on_gpu and group.sums_gradients):
            made = dist.new_group(
                group.ranks,
                timeout=patience,
                backend="gloo" if group.on_cpu else None,
                use_local_synchronization=True,
                device_id=gpu if on_gpu else None,
                pg_options=nccl_options(group.kind, patience) if on_gpu else None,
            )
        names.append(made.group_name)
    return names


def main(argv=None):
    """Trains as the arguments and the environment say. Returns the exit code."""
    return exit_code(lambda: train(parse(argv)))


def train(options):
    # The end of a job is told in one line; PyTorch would add a page for every connection. It reads
    # this once, when it is imported.
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")
    rank, ranks = place()
    native = runtime.load()
    arguments = native.TrainArguments()
    arguments.config = options.config
    arguments.overrides = options.set
    arguments.against = options.against
    arguments.resume = options.resume
    arguments.init = options.init
    arguments.log_command = runtime.log_command()
    try:
        needs = native.process_needs(arguments, rank, ranks)
    except InvalidInput as error:
        # Once for each machine: the others may have what this one lacks, and wait for it.
        if rank == 0:
            say(str(error))
        elif os.environ.get("LOCAL_RANK") == "0":
            say(f"rank {rank}: {error}")
        return INVALID
    if needs.device == "cuda":
        from slimpack.own_gpu import take_gpu
        take_gpu("set train.device to cpu")
    timeout = datetime.timedelta(seconds=needs.timeout)
    names = connect(needs.groups, needs.device, timeout) if ranks > 1 else []
    native.run_process(arguments, rank, needs.groups, names)
    if ranks > 1:
        import torch.distributed as dist
        dist.destroy_process_group()
    return 0


if __name__ == "__main__":
    end(main)
