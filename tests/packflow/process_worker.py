"""One process of process_gradients_test.py: runs the steps of files in turn, each on its grid."""

import json
import os
import sys
from pathlib import Path

import torch.distributed as dist

sys.path.insert(0, str(Path(os.environ["SLIMPACK_BUILD"]) / "tests" / "packflow"))
import process_driver  # noqa: E402

rank = int(os.environ["RANK"])
dist.init_process_group("gloo")
for file in sys.argv[1:]:
    step = json.loads(Path(file).read_text())
    grid = process_driver.RankGrid(step["pp"], step["dp"], step["tp"])
    names = [dist.new_group(ranks, use_local_synchronization=True).group_name
             for ranks in process_driver.group_ranks(grid, rank)]
    process_driver.run(file, grid, rank, names)
dist.destroy_process_group()
