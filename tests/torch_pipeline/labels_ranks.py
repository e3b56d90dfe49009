"""Runs on each rank of a job: training runs of a tiny model on documents of which not all tokens are
targets."""

import random
import warnings

import numpy as np
import slimpack
import torch
from slimpack import LabelledTokens
from slimpack.torch import pipeline
from slimpack.torch.pipeline.comparison import Fp64Casts
from training_ranks import CONTEXT, DOCUMENTS, HELD_OUT, trainer_of, weights_of


def labelled(documents, seed):
    """LabelledTokens: half of the tokens are targets; one document has none, one has all."""
    rng, found = random.Random(seed), []
    for number, tokens in enumerate(documents):
        share = {0: 0, 1: 1}.get(number, 0.5)
        labels = [int(token) if rng.random() < share else -100 for token in tokens]
        found.append(LabelledTokens(torch.tensor(tokens), torch.tensor(labels)))
    return found


TRAINED, EVALUATED = labelled(DOCUMENTS, 1), labelled(HELD_OUT, 2)


def train_on_labels(output, stages, until, options=None):
    """Trains and evaluates. Returns this rank's weights by name."""
    trainer = trainer_of(output, stages, held_out=EVALUATED, **(options or {}))
    trainer.steps._read_document = lambda document, begin, end: TRAINED[document][begin:end]
    with Fp64Casts():
        trainer.train(until)
    return weights_of(trainer)


def drawn_first(seed=5):
    """The documents of a run's first step."""
    sampler = pipeline.StepSampler([len(d) for d in DOCUMENTS], context=CONTEXT, step_tokens=200, seed=seed)
    columns = sampler.next_step()[:3]
    return [TRAINED[d][begin:begin + n] for d, begin, n in zip(*columns, strict=True)]


def train_where_few_have_targets(output, labels_of):
    """(by step the documents' tokens, warnings) of a run on documents of three tokens, a document a
    step. labels_of(document): its labels."""
    trainer = trainer_of(output, 2)
    trainer.steps.sampler = pipeline.StepSampler([3] * 6, context=8, step_tokens=1)

    def read(document, begin, end):
        return LabelledTokens(np.full(3, 10 + document), np.array(labels_of(document)))

    trainer.steps._read_document = read
    trained, real = [], trainer.engine.step

    def step(plan, documents):
        trained.append([int(document.tokens[0]) for document in documents.values()])
        return real(plan, documents)

    trainer.engine.step = step
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        trainer.train(2)
    return trained, [str(warning.message) for warning in caught], weights_of(trainer)


def only_the_third(document):
    return [-100, 12, -100] if document == 2 else [10 + document, -100, -100]


def none(document):
    return [10 + document, -100, -100]


def train_on_dataset(output, prefix, stages, until):
    """train_on_labels on a dataset of the same documents, whose mask has their targets."""
    dataset = slimpack.IndexedDataset.open(prefix)
    trainer = trainer_of(output, stages, held_out=EVALUATED)
    trainer.steps._read_document = dataset.read
    with Fp64Casts():
        trainer.train(until)
    return weights_of(trainer)
