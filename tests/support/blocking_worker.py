"""A process of slimpack.worker on the stand-in for NCCL.

    blocking_worker.py WAY SYNCHRONISING PATIENCE RUN.toml ...

WAY, SYNCHRONISING: as blocking.register. PATIENCE: seconds after which what blocks hangs.
"""

import datetime
import sys

import torch.distributed as dist

import blocking
from slimpack import worker

way, synchronising, patience, *arguments = sys.argv[1:]
blocking.register(datetime.timedelta(seconds=float(patience)), way, synchronising)
connect = dist.init_process_group
dist.init_process_group = lambda backend, **options: connect("blocking", **options)
sys.exit(worker.main(arguments))
