"""Times of links between ranks, under torchrun: one JSON object from the first rank.

    links.py DEVICE LARGEST     LARGEST: bytes of the largest message

Messages between neighbours, and collectives of all ranks. A bandwidth is that of torch's and NCCL's own
benchmarks: bytes that a rank must send at least, by the time of the slowest rank.
"""

import json
import os
import statistics
import sys
import time

import torch
import torch.distributed as dist

REPETITIONS = 5


def timed(work, device):
    """Seconds of one call, of the slowest rank; the median of several after one to warm up."""
    seconds = []
    for _ in range(1 + REPETITIONS):
        dist.barrier()
        start = time.perf_counter()
        work()
        if device == "cuda":
            torch.cuda.synchronize()
        took = torch.tensor([time.perf_counter() - start], device=device)
        dist.all_reduce(took, dist.ReduceOp.MAX)
        seconds.append(took.item())
    return statistics.median(seconds[1:])


def around(rank, ranks, sent, received):
    """Every rank sends to the next one and receives from the one before, at once."""
    batch = [dist.P2POp(dist.isend, sent, (rank + 1) % ranks),
             dist.P2POp(dist.irecv, received, (rank - 1) % ranks)]
    for work in dist.batch_isend_irecv(batch):
        work.wait()


def measure(device, elements):
    """Returns {operation: (seconds, bytes that a rank sends at least)}."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    elements -= elements % ranks
    whole, other = (torch.ones(elements, device=device) for _ in range(2))
    part = torch.ones(elements // ranks, device=device)
    size, share = whole.nbytes, (ranks - 1) / ranks
    return {
        "to the next rank": (timed(lambda: around(rank, ranks, whole, other), device), size),
        "all_reduce": (timed(lambda: dist.all_reduce(other), device), 2 * share * size),
        "reduce_scatter": (timed(lambda: dist.reduce_scatter_tensor(part, whole), device), share * size),
        "all_gather": (timed(lambda: dist.all_gather_into_tensor(whole, part), device), share * size),
    }


def main():
    device, largest = sys.argv[1], int(sys.argv[2])
    if device == "cuda":
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl" if device == "cuda" else "gloo")
    rows, size = [], 1 << 12
    while size <= largest:
        for operation, (seconds, sent) in measure(device, size // 4).items():
            rows.append({"operation": operation, "bytes": size, "seconds": seconds,
                         "bytes_per_second": sent / seconds})
        size <<= 6
    if dist.get_rank() == 0:
        print(json.dumps({"links": rows}), flush=True)
    dist.barrier()
    os._exit(0)  # threads of Gloo that still run would abort the process at times


if __name__ == "__main__":
    main()
