#!/usr/bin/env python3
"""How equal the work of data-parallel ranks is, by how documents are dealt out to them.

Every method gets the same documents in each step: the next ones of a list of real lengths, split at the
context. Work is what Llama-3-8B takes forward and backward on an H100. Prints, by context and method, the
slowest rank's work ÷ the mean, averaged over the steps in which no document outweighs a rank's share, and
the tokens of the fullest micro-batch. SlimPack's sampler never exceeds the context there.

    .venv/bin/python bench/sampler.py lengths.txt [--json FILE]
"""

import argparse
import heapq
import itertools
import json
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RANKS = 8
CONTEXTS = [32768, 131072]


def parse():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("lengths", type=Path, help="documents: one length a line")
    parser.add_argument("--build", type=Path, default=ROOT / "build" / "release")
    parser.add_argument("--packs", type=int, default=4, help="contexts that a rank's step holds")
    parser.add_argument("--json", type=Path, help="write the figures here")
    return parser.parse_args()


def karmarkar_karp(work, parts):
    """Largest differencing, as verl/utils/seqlen_balancing.py has it: indices of each part."""
    order = itertools.count()
    heap = []
    for index, w in enumerate(work):
        sums = [(w, [index])] + [(0.0, [])] * (parts - 1)
        heapq.heappush(heap, (-w, next(order), sums))
    while len(heap) > 1:
        first, second = heapq.heappop(heap)[2], heapq.heappop(heap)[2]
        merged = sorted(((a[0] + b[0], a[1] + b[1]) for a, b in zip(first, reversed(second), strict=True)),
                        key=lambda part: -part[0])
        heapq.heappush(heap, (merged[-1][0] - merged[0][0], next(order), merged))
    return [indices for _, indices in heap[0][2]]


def lightest_first(weights, parts):
    """Heaviest first, each to the lightest part."""
    loads = [(0.0, part, []) for part in range(parts)]
    for index in sorted(range(len(weights)), key=lambda i: -weights[i]):
        load, part, held = heapq.heappop(loads)
        heapq.heappush(loads, (load + weights[index], part, [*held, index]))
    return [held for _, _, held in sorted(loads, key=lambda load: load[1])]


def best_fit(tokens, context, parts):
    """Best-fit-decreasing packs of the context, dealt out in turn, the fullest first."""
    packs = []
    for index in sorted(range(len(tokens)), key=lambda i: -tokens[i]):
        rooms = [(context - held, p) for p, (held, _) in enumerate(packs) if held + tokens[index] <= context]
        if rooms:
            held, indices = packs[min(rooms)[1]]
            packs[min(rooms)[1]] = (held + tokens[index], [*indices, index])
        else:
            packs.append((tokens[index], [index]))
    packs.sort(key=lambda pack: -pack[0])
    return [[i for _, indices in packs[rank::parts] for i in indices] for rank in range(parts)]


def fullest_of(work, tokens, part, context):
    """verl makes micro-batches of a rank's documents by work again, as few as tokens allow."""
    count = -(-int(tokens[part].sum()) // context)
    return max(int(sum(tokens[part[i]] for i in batch))
               for batch in karmarkar_karp([work[i] for i in part], count))


def ratio(work, parts):
    loads = [sum(work[i] for i in part) for part in parts]
    return max(loads) * len(loads) / sum(loads)


def of_context(slimpack, sampler, documents, context, packs):
    """Figures of one context."""
    lengths = slimpack.split_documents(documents, context)
    # Positions of the model as long as the context.
    model = json.loads((ROOT / "models" / "llama-3-8b.json").read_text())
    job = slimpack.Job({**model, "max_position_embeddings": context}, {"dp": RANKS}, "h100")
    drawn = sampler(lengths, context, ranks=RANKS, rank=0, cost=job, seed=1,
                    step_tokens=packs * context * RANKS)
    ratios = {name: [] for name in ("slimpack", "karmarkar-karp", "token balancing", "best-fit")}
    fullest = dict.fromkeys(("slimpack", "karmarkar-karp"), 0)
    steps, micro_batches = 0, 0
    for step in drawn.steps():
        work, tokens = drawn.costs[step.documents], lengths[step.documents]
        steps += 1
        fullest["slimpack"] = max(fullest["slimpack"],
                                  *(int(lengths[b].sum()) for r in step.of_rank for b in r))
        if work.max() > work.sum() / RANKS:
            continue
        place = {d: i for i, d in enumerate(step.documents.tolist())}
        ours = [[place[d] for batch in of_rank for d in batch.tolist()] for of_rank in step.of_rank]
        micro_batches += len(step.of_rank[0])
        ratios["slimpack"].append(ratio(work, ours))
        theirs = karmarkar_karp(work.tolist(), RANKS)
        ratios["karmarkar-karp"].append(ratio(work, theirs))
        fullest["karmarkar-karp"] = max(fullest["karmarkar-karp"],
                                        *(fullest_of(work, tokens, part, context) for part in theirs))
        ratios["token balancing"].append(ratio(work, lightest_first(tokens.tolist(), RANKS)))
        ratios["best-fit"].append(ratio(work, best_fit(tokens.tolist(), context, RANKS)))
    counted = len(ratios["slimpack"])
    return {"context": context, "ranks": RANKS, "steps": steps, "counted_steps": counted,
            "micro_batches_per_rank": micro_batches / max(counted, 1), "fullest_micro_batch": fullest,
            "mean_ratio": {name: sum(r) / len(r) for name, r in ratios.items() if r},
            "worst_ratio": {name: max(r) for name, r in ratios.items() if r}}


def main():
    options = parse()
    sys.path.insert(0, str(options.build / "python"))
    import slimpack
    from slimpack.torch import SlimPackSampler

    documents = slimpack.read_lengths(options.lengths)
    results = [of_context(slimpack, SlimPackSampler, documents, c, options.packs) for c in CONTEXTS]
    for result in results:
        print(f"context {result['context']:,}, {RANKS} ranks, {result['counted_steps']} of {result['steps']} "
              f"steps, {result['micro_batches_per_rank']:.2f} micro-batches a rank")
        for name, mean in result["mean_ratio"].items():
            held = result["fullest_micro_batch"].get(name)
            print(f"  {name:<16} mean {mean:.4f}  worst {result['worst_ratio'][name]:.4f}"
                  + (f"  fullest micro-batch {held:,} tokens" if held else ""))
    if options.json:
        options.json.write_text(json.dumps({"cases": results}, indent=2) + "\n")


if __name__ == "__main__":
    main()
