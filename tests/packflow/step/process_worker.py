"""One process of process_gradients_test.py: runs the steps of files in turn, each on its grid.

    process_worker.py gloo STEP.json ...
    process_worker.py WAY,SYNCHRONISING,SECONDS STEP.json ...    on the stand-in for NCCL (blocking.py)
"""

import datetime
import json
import os
import sys
from pathlib import Path

import torch.distributed as dist

sys.path.insert(0, str(Path(os.environ["SLIMPACK_BUILD"]) / "tests" / "packflow"))
import process_driver  # noqa: E402

backend, *files = sys.argv[1:]
if backend != "gloo":
    sys.path.insert(0, str(Path(__file__).parents[2] / "support"))
    import blocking

    way, synchronising, seconds = backend.split(",")
    blocking.register(datetime.timedelta(seconds=float(seconds)), way, synchronising)
    backend = "blocking"
rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
store = dist.TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), ranks, rank == 0)
for case, file in enumerate(files):
    # PyTorch names a group by how many its ranks have made, which after a grid differs among them:
    # every case begins anew.
    dist.init_process_group(backend, store=dist.PrefixStore(f"case{case}", store), rank=rank,
                            world_size=ranks)
    step = json.loads(Path(file).read_text())
    grid = process_driver.RankGrid(step["pp"], step["dp"], step["tp"], step.get("stages_per_rank", 1),
                                   step.get("turns_back", False),
                                   step.get("spread_vocabulary", False),
                                   step.get("exchange_context", False))
    grid = process_driver.on_nodes(grid, step.get("ranks_per_node", 0), step.get("route", False))
    names = [dist.new_group(members, use_local_synchronization=True).group_name
             for members in process_driver.group_ranks(grid, rank)]
    process_driver.run(file, grid, rank, names, step.get("same_bits", True))
    dist.destroy_process_group()
