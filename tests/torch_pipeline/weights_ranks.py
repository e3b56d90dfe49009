"""Random steps of documents with masks and weights: what a pipeline finds, on each rank of a job or in this
process, and what transformers finds one document at a time."""

import json
import math
import random
from typing import NamedTuple

import torch
from families import config_of, model_of
from pipeline_worker import arrays_of, close, engine_of
from slimpack import LabelledTokens
from slimpack.torch.pipeline.comparison import Fp64Casts
from trial import random_case

FAMILY = "llama"
MASKS = ("none", "all", "one", "borders", "random")


class Case(NamedTuple):
    """A step of a seed. loss: what the engine is made with."""

    seed: int
    loss: str
    stages: int
    replicas: int
    kind: str

    def step(self):
        """(plan, documents)"""
        plan, tokens = random_case(self.seed, stages=self.stages, replicas=self.replicas, kind=self.kind)
        return plan, weighted(plan, tokens, random.Random(self.seed))

    def model(self):
        return model_of(config_of(FAMILY), self.seed)


def weighted(plan, documents, rng):
    """LabelledTokens of every kind of mask, with weights, without, and with weights that are all 1."""
    borders = borders_of(plan)
    masks = [*MASKS, *rng.choices(MASKS, k=len(documents))][:len(documents)]
    rng.shuffle(masks)
    found = []
    for number, (tokens, kind) in enumerate(zip(documents, masks, strict=True)):
        chosen = {"none": [], "all": range(len(tokens)), "one": [rng.randrange(len(tokens))],
                  "borders": [i for i in borders[number] if i < len(tokens)],
                  "random": [i for i in range(len(tokens)) if rng.random() < 0.4]}[kind]
        labels = torch.full_like(tokens, -100)
        labels[list(chosen)] = tokens[list(chosen)]
        weights = [rng.choice([0.0, 1.0, math.exp(rng.gauss(0, 2))]) for _ in tokens]
        given = [weights, torch.tensor(weights), torch.ones(len(tokens)), None]
        found.append(LabelledTokens(tokens, labels, given[number % 4]))
    return found


def borders_of(plan):
    """By sequence the first and last tokens of its slices, forward and backward."""
    found = [set() for _ in plan.lengths]
    for replica in json.loads(plan.to_json())["plan"]["replicas"]:
        for pack in replica["forward"] + replica["backward"]:
            for sequence, begin, end in pack:
                found[sequence] |= {begin, end - 1, end}
    return found


def transformers_step(model, documents, loss):
    """(loss, its divisor) of a step by plain autograd, one document at a time. Adds the gradients."""
    summed, divisors = [], []  # by document with a target
    with Fp64Casts():
        for document in documents:
            weights = [1.0] * len(document) if document.weights is None else list(map(float, document.weights))
            logits_TV = model(input_ids=document.tokens[None], use_cache=False).logits[0]
            of_token = [(weights[i], -torch.log_softmax(logits_TV[i - 1], 0)[document.tokens[i]])
                        for i in range(1, len(document)) if document.labels[i] != -100 and weights[i] > 0]
            if of_token:
                total = sum(weight for weight, _ in of_token)
                share = total if loss == "document" else 1.0
                summed.append(sum(weight / share * value for weight, value in of_token))
                divisors.append(total / share)
        mean = sum(summed) / sum(divisors)
        mean.backward()
    return mean.item(), sum(divisors)


def step_of(case):
    """(loss, that of an evaluation, targets, their weight, gradients by name) on this rank."""
    plan, documents = case.step()
    engine = engine_of(FAMILY, case.seed, plan, {"loss": case.loss})
    with Fp64Casts():
        result = engine.step(plan, documents)
        alone = engine.evaluate(plan, documents)
    assert (alone.targets, alone.weight) == (result.targets, result.weight)
    close(engine)
    return result.loss, alone.loss, result.targets, result.weight, arrays_of(engine)
