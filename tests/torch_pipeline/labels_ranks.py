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
from training_ranks import CONTEXT, DOCUMENTS, HELD_OUT, die_while_saving, trainer_of, weights_of


def labelled(documents, seed):
    """LabelledTokens: half of the tokens are targets; one document has none, one has all."""
    rng, found = random.Random(seed), []
    for number, tokens in enumerate(documents):
        share = {0: 0, 1: 1}.get(number, 0.5)
        labels = [int(token) if rng.random() < share else -100 for token in tokens]
        found.append(LabelledTokens(torch.tensor(tokens), torch.tensor(labels)))
    return found


def weighted(documents):
    """The documents with random weights, a third of which are 0."""
    rng = random.Random(3)
    return [LabelledTokens(d.tokens, d.labels, [max(0.0, rng.uniform(-1, 2)) for _ in range(len(d))])
            for d in documents]


TRAINED, EVALUATED = labelled(DOCUMENTS, 1), labelled(HELD_OUT, 2)
TRAINED_BY_WEIGHT, EVALUATED_BY_WEIGHT = weighted(TRAINED), weighted(EVALUATED)


def train_on_labels(output, stages, until, options=None):
    """Trains and evaluates. Returns this rank's weights by name."""
    trainer = trainer_of(output, stages, held_out=EVALUATED, **(options or {}))
    trainer.steps._read_document = lambda document, begin, end: TRAINED[document][begin:end]
    with Fp64Casts():
        trainer.train(until)
    return weights_of(trainer)


def train_on_weights(output, until, options=None, killed=False):
    """Trains and evaluates on weighted documents whose mean counts. killed: while it saves for the second time."""
    if killed:
        die_while_saving("tensors")
    trainer = trainer_of(output, 2, loss="document", held_out=EVALUATED_BY_WEIGHT, checkpoint_every=2,
                         **(options or {}))
    trainer.steps._read_document = lambda document, begin, end: TRAINED_BY_WEIGHT[document][begin:end]
    with Fp64Casts():
        trainer.train(until)
    return weights_of(trainer)


def drawn_first(seed=5, trained=TRAINED):
    """The documents of a run's first step."""
    sampler = pipeline.StepSampler([len(d) for d in DOCUMENTS], context=CONTEXT, step_tokens=200, seed=seed)
    columns = sampler.next_step()[:3]
    return [trained[d][begin:begin + n] for d, begin, n in zip(*columns, strict=True)]


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


def by_place(document, places):
    """A document with extras that tell each token's place in it."""
    return LabelledTokens(document.tokens, document.labels, extras={"place": torch.arange(places, dtype=torch.float64)})


def place_weighted(rows):
    """Cross-entropy that grows with the place in the document, which the document brings."""
    return -rows.logprobs_T * rows["place"], {"place": rows["place"]}


def train_on_extras(output, until):
    """Trains and evaluates with a loss that takes extras of documents that are read ahead."""
    with_places = [[by_place(d, len(d)) for d in documents] for documents in (TRAINED, EVALUATED)]
    trainer = trainer_of(output, 2, loss=place_weighted, held_out=with_places[1])
    trainer.steps._read_document = lambda document, begin, end: with_places[0][document][begin:end]
    with Fp64Casts():
        trainer.train(until)
