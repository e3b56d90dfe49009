"""Random plans: cuts, MicroPacks and orders of work that no planner would choose, to try models
with."""

import json

from slimpack.job import Job
from slimpack.step_plan import StepPlan

_SLOTS = 8  # messages between two stages, as schedules are checked with
# A plan file says what a plan costs. The model matters only by its number of layers here.
_MODEL = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 32,
          "intermediate_size": 48, "num_attention_heads": 4, "num_key_value_heads": 2,
          "vocab_size": 97, "max_position_embeddings": 1 << 20, "rms_norm_eps": 1e-6,
          "tie_word_embeddings": False}
KINDS = ("sliced", "symmetric", "packed")


def random_plan(lengths, layer_begin, rng, *, replicas=1, kind="sliced", recompute="full"):
    """A StepPlan of random MicroPacks in a random order, with the given stages.

    rng: a random.Random. kind: "sliced" cuts forward and backward differently, "symmetric" alike,
    "packed" not at all. recompute: one name, or one for each layer.
    """
    lengths, layers = list(map(int, lengths)), layer_begin[-1]
    job = Job(dict(_MODEL, num_hidden_layers=layers), {"dp": replicas}, "h100", memory_cap="none")
    content = json.loads(job.plan([1] * max(len(lengths), replicas)).to_json())
    owner = [rng.randrange(replicas) for _ in lengths]
    of_replicas, schedules = [], []
    for replica in range(replicas):
        sequences = [s for s, of in enumerate(owner) if of == replica]
        forward, backward = _random_packs(lengths, sequences, rng, kind)
        of_replicas.append({"sequences": sequences, "forward": forward, "backward": backward})
        orders = _random_orders(forward, backward, len(layer_begin) - 1, rng)
        schedules.append("".join(",".join(order) + "\n" for order in orders))
    by_layer = [recompute] * layers if isinstance(recompute, str) else list(recompute)
    content["plan"].update(lengths=lengths, layer_begin=list(layer_begin), recompute=by_layer,
                           replicas=of_replicas)
    content.update(schedules=schedules, speed=[])
    return StepPlan.from_json(json.dumps(content), "random plan")


def random_layer_begin(layers, stages, rng, begins=None):
    """`stages` stages of random numbers of layers. begins: where one may begin, from 0; None =
    anywhere."""
    begins = range(layers) if begins is None else begins
    return [0, *sorted(rng.sample(begins[1:], stages - 1)), layers]


def _random_packs(lengths, sequences, rng, kind):
    forward = _packs([_cuts(lengths[s], s, rng, kind) for s in sequences], rng)
    if kind == "sliced":
        descending = [_cuts(lengths[s], s, rng, kind)[::-1] for s in sequences]
        return forward, _packs(descending, rng)
    return forward, forward[::-1]


def _cuts(length, sequence, rng, kind):
    """Slices of a sequence, ascending."""
    most = 0 if kind == "packed" else min(length - 1, rng.randint(0, 4))
    cuts = [0, *sorted(rng.sample(range(1, length), most)), length]
    return [[sequence, a, b] for a, b in zip(cuts, cuts[1:], strict=False)]


def _packs(slices_of, rng):
    """Random MicroPacks that keep the order of each sequence's slices."""
    packs, left = [], [list(slices) for slices in slices_of]
    while left := [slices for slices in left if slices]:
        chosen = rng.sample(left, min(len(left), rng.randint(1, 4)))
        packs.append([slices.pop(0) for slices in chosen])
    return packs


def _random_orders(forward, backward, stages, rng):
    """By stage its actions: whatever a random stage can do next is done."""
    end_of = {}
    for number, pack in enumerate(forward):
        end_of.update({sequence: number + 1 for sequence, _, _ in pack})
    needed = [max(end_of[sequence] for sequence, _, _ in pack) for pack in backward]
    done = {"F": [0] * stages, "B": [0] * stages}
    total = {"F": len(forward), "B": len(backward)}

    def can(passes, stage):
        count, ahead = done[passes], 1 if passes == "F" else -1
        if count[stage] == total[passes]:
            return False
        if passes == "B" and done["F"][stage] < needed[count[stage]]:
            return False
        before, after = stage - ahead, stage + ahead
        return ((not 0 <= before < stages or count[before] > count[stage])
                and (not 0 <= after < stages or count[stage] - count[after] < _SLOTS))

    orders = [[] for _ in range(stages)]
    while possible := [(p, s) for p in "FB" for s in range(stages) if can(p, s)]:
        passes, stage = rng.choice(possible)
        orders[stage].append(f"{stage}{passes}{done[passes][stage]}")
        done[passes][stage] += 1
    return orders
