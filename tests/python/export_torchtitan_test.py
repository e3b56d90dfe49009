"""torchtitan's loader protocol: every token once, on any number of ranks, also after resuming."""

import itertools
import json
import subprocess

import numpy as np
import pytest
import slimpack
import torch
from generated import examples
from hypothesis import given
from hypothesis import strategies as st
from processes import BUILD
from slimpack.export.torchtitan import IGNORED, SlimPackDataLoader
from torch.distributed import checkpoint

CONTEXT, MAX_TOKENS = 256, 512


def make_documents():
    """Every token of theirs is another number."""
    lengths = np.minimum(np.random.default_rng(11).lognormal(4.5, 1.2, 150).astype(int), 1500)
    return np.split(np.arange(1, lengths.sum() + 1, dtype=np.int32), lengths.cumsum()[:-1])


DOCUMENTS = make_documents()
TOKENS = sum(map(len, DOCUMENTS))
OF_DOCUMENT = np.repeat(np.arange(len(DOCUMENTS)), [len(d) for d in DOCUMENTS])


def loader(ranks=4, rank=0, **changes):
    arguments = {"micro_batches": 2, "context": CONTEXT, "repeat": False}
    return SlimPackDataLoader(DOCUMENTS, MAX_TOKENS, dp_world_size=ranks, dp_rank=rank,
                              **{**arguments, **changes})


def read(batch):
    """The tokens of a batch as torchtitan's trainer takes it; all that it promises is checked."""
    inputs, labels = batch
    tokens, positions = inputs["input"], inputs["positions"]
    assert inputs.keys() == {"input", "positions"}
    for tensor in (tokens, positions, labels):
        assert tensor.shape == (MAX_TOKENS,) and tensor.dtype == torch.int64
    starts = (positions == 0).nonzero().flatten().tolist()
    assert starts[0] == 0
    for first, end in itertools.pairwise([*starts, MAX_TOKENS]):
        of_one = tokens[first:end]
        assert torch.equal(positions[first:end], torch.arange(end - first))
        if of_one[0] == 0:  # padding
            assert end == MAX_TOKENS and not of_one.any() and (labels[first:end] == IGNORED).all()
            continue
        assert end - first <= CONTEXT
        assert len(set(OF_DOCUMENT[of_one.numpy() - 1])) == 1
        assert torch.equal(labels[first:end - 1], of_one[1:]) and labels[end - 1] == IGNORED
        assert torch.equal(of_one, torch.arange(int(of_one[0]), int(of_one[0]) + end - first))
    return tokens[tokens > 0].tolist()


def read_all(loaders):
    return sorted(itertools.chain(*(read(batch) for one in loaders for batch in one)))


def test_every_token_comes_once():
    assert read_all([loader(ranks=1)]) == list(range(1, TOKENS + 1))
    of_four = [loader(rank=rank) for rank in range(4)]
    assert len({len(list(one)) for one in [loader(rank=rank) for rank in range(4)]}) == 1
    assert read_all(of_four) == list(range(1, TOKENS + 1))


@pytest.mark.parametrize(("documents", "ranks", "batches"), [(10, 3, 4), (3, 4, 1), (5, 4, 2)])
def test_the_last_documents_of_an_epoch_come_on_any_number_of_ranks(documents, ranks, batches):
    """A rank that has none gets a batch of padding, so that all ranks train as many."""
    tokens = [np.arange(1, 101) + 1000 * document for document in range(documents)]
    of_rank = [list(SlimPackDataLoader(tokens, 128, dp_world_size=ranks, dp_rank=rank, repeat=False))
               for rank in range(ranks)]
    assert {len(one) for one in of_rank} == {batches}
    trained = sorted(int(inputs["input"][0]) // 1000 for one in of_rank for inputs, labels in one
                     if (labels != IGNORED).any())
    assert trained == list(range(documents))
    assert all(inputs["input"].shape == inputs["positions"].shape == labels.shape == (128,)
               for one in of_rank for inputs, labels in one)


@pytest.mark.parametrize("ranks", [1, 2, 4, 8])
@pytest.mark.parametrize("batches", [0, 3, 4])
def test_a_checkpoint_goes_on_with_any_number_of_ranks(ranks, batches, tmp_path):
    """Through torch's own checkpoints, which read the keys of the loader that loads."""
    done, state = [], None
    for rank in range(4):
        one = loader(rank=rank)
        done += itertools.chain(*(read(batch) for batch in itertools.islice(one, batches)))
        assert state in (None, one.state_dict())  # the same on every rank
        state = one.state_dict()
    assert state.keys() == {"version", "dp_world_size", "dp_rank_0"} and state["dp_world_size"] == 4
    checkpoint.save({"dataloader": one}, checkpoint_id=tmp_path, no_dist=True)
    resumed = [loader(ranks, rank) for rank in range(ranks)]
    for one in resumed:
        checkpoint.load({"dataloader": one}, checkpoint_id=tmp_path, no_dist=True)
    after = read_all(resumed)
    assert sorted(done + after) == list(range(1, TOKENS + 1))


def test_resuming_gives_the_same_batches_as_going_on():
    one = loader(repeat=True)
    batches = iter(one)
    for _ in range(30):  # in the second epoch
        next(batches)
    other = loader(repeat=True)
    state = one.state_dict()
    other.load_state_dict({"version": 1, "dp_world_size": 4, "dp_rank_3": state["dp_rank_0"]})
    assert one.sampler.epoch >= 1
    for (a, labels), (b, others) in zip(itertools.islice(batches, 20), iter(other), strict=False):
        assert torch.equal(a["input"], b["input"]) and torch.equal(labels, others)


def test_rows_are_batches_without_padding():
    for row, batch in zip(loader().rows(), loader(), strict=True):
        assert row.input_ids.tolist() == read(batch)
        assert len(row.labels) == len(row.positions) == len(row.input_ids) <= MAX_TOKENS


def test_datasets_of_files_are_documents(tmp_path):
    folder = tmp_path / "text"
    folder.mkdir()
    for name, text in {"a": "abc", "b": "defgh" * 100, "c": "i"}.items():
        (folder / f"{name}.txt").write_text(text)
    subprocess.run([BUILD / "slimpack", "data", "build", "--from", folder, "--glob", "*.txt",
                    "--out", tmp_path / "corpus"], check=True, capture_output=True)
    documents = slimpack.IndexedDataset.open(tmp_path / "corpus")
    rows = list(SlimPackDataLoader(documents, MAX_TOKENS, context=CONTEXT, repeat=False).rows())
    expected = np.concatenate([documents[i] for i in range(len(documents))])
    assert sorted(np.concatenate([row.input_ids for row in rows])) == sorted(expected)


@given(st.lists(st.integers(0, 40), min_size=1, max_size=25).filter(any), st.integers(1, 4), st.integers(1, 4),
       st.integers(1, 3), st.sampled_from([None, 1, 2]), st.integers(0, 40))
@examples(100)
def test_every_token_comes_once_however_often_the_run_stops(lengths, ranks, others, micro_batches, rows, stop):
    tokens = np.split(np.arange(1, sum(lengths) + 1), np.cumsum(lengths)[:-1])

    def loaders(count):
        return [SlimPackDataLoader(tokens, 32, dp_world_size=count, dp_rank=rank, micro_batches=micro_batches,
                                   context=16, rows=rows, repeat=False) for rank in range(count)]

    def tokens_of(batches):
        return [token for inputs, _ in batches for token in inputs["input"][inputs["input"] > 0].tolist()]

    first, then = loaders(ranks), loaders(others)
    seen = [token for one in first for token in tokens_of(itertools.islice(one, stop))]
    for one in then:
        one.load_state_dict(first[-1].state_dict())
    epochs = then[0].sampler.epoch + 1
    rest = [list(one) for one in then]
    assert len({len(batches) for batches in rest}) == 1
    seen += [token for batches in rest for token in tokens_of(batches)]
    assert sorted(seen) == sorted(list(range(1, sum(lengths) + 1)) * epochs)


def test_a_state_of_batches_with_fewer_rows_goes_on():
    """Two batches of a row are as many micro-batches as one of two rows, so the last one has one row."""
    of_one, of_two = loader(1, micro_batches=2, rows=1), loader(1, micro_batches=1, rows=2)
    seen = [token for inputs, _ in itertools.islice(of_one, 1)
            for token in inputs["input"][inputs["input"] > 0].tolist()]
    of_two.load_state_dict(of_one.state_dict())
    for inputs, _ in of_two:
        assert inputs["input"].shape == (2, MAX_TOKENS)
        seen += inputs["input"][inputs["input"] > 0].tolist()
    assert sorted(seen) == list(range(1, TOKENS + 1))


def test_the_trainer_of_the_release_builds_it_too():
    """0.3.0 gives seq_len and local_batch_size, and takes batches of two dimensions."""
    seen = []
    for rank in range(3):
        built = SlimPackDataLoader.Config(DOCUMENTS, micro_batches=2, repeat=False).build(
            dp_world_size=3, dp_rank=rank, tokenizer=None, seq_len=MAX_TOKENS, local_batch_size=2,
            snapshot_every_n_steps=None)
        batches = list(built)
        assert len(batches) % 2 == 0
        for inputs, labels in batches:
            assert {tensor.shape for tensor in (*inputs.values(), labels)} == {(2, MAX_TOKENS)}
            assert ((inputs["positions"] == 0).any(dim=1)).all()
            seen += inputs["input"][inputs["input"] > 0].tolist()
    assert sorted(seen) == list(range(1, TOKENS + 1))


def test_a_trainer_of_neither_kind_is_refused():
    with pytest.raises(slimpack.InvalidInput, match=r"no shape of a batch that is known; take torchtitan 0\.3\.0"):
        SlimPackDataLoader.Config(DOCUMENTS).build(dp_world_size=1, dp_rank=0, batch_size=8)


def test_its_config_is_json():
    config = SlimPackDataLoader.Config(DOCUMENTS, cost=np.ones(len(DOCUMENTS)))
    assert json.loads(json.dumps(config.to_dict()))["documents"] == len(DOCUMENTS)


def test_the_trainer_builds_it():
    config = SlimPackDataLoader.Config(DOCUMENTS, micro_batches=2, repeat=False)
    built = config.build(dp_world_size=4, dp_rank=1, tokenizer=None, max_context_length=CONTEXT,
                         num_tokens_per_batch=MAX_TOKENS)
    for batch, same in zip(built, loader(rank=1), strict=True):
        assert torch.equal(batch[1], same[1])
    built.close()


@pytest.mark.parametrize(("make", "message"), [
    (lambda: loader(context=0), r"context is 0"),
    (lambda: loader(context=MAX_TOKENS + 1), r"has 513 tokens, max_tokens is 512"),
    (lambda: SlimPackDataLoader([], 8), r"or there is none"),
    (lambda: loader().load_state_dict({"version": 2}), r"version 2, must be 1"),
    (lambda: loader().load_state_dict({"version": 1}), r"no dp_rank_… entry"),
    (lambda: loader(seed=1).load_state_dict(loader().state_dict()), r"of seed 0, here it is 1"),
])
def test_bad_input_is_refused(make, message):
    with pytest.raises(slimpack.InvalidInput, match=message):
        make()


def test_labels_of_documents_come_along():
    tokens = np.arange(1, 11)
    labels = np.where(np.isin(tokens, [1, 3, 4, 7]), tokens, IGNORED)
    one = SlimPackDataLoader([slimpack.LabelledTokens(tokens, labels)], 32, context=6, repeat=False)
    row, = one.rows()
    of_token = dict(zip(row.input_ids.tolist(), row.labels.tolist(), strict=True))
    # Sequences of the tokens 1 to 6 and 7 to 10: nothing predicts 1 and 7.
    assert {token: label for token, label in of_token.items() if label != IGNORED} == {2: 3, 3: 4}


def test_weights_are_refused_as_the_loss_takes_none():
    one = slimpack.LabelledTokens(np.arange(4), np.arange(4), np.ones(4))
    with pytest.raises(slimpack.InvalidInput, match="document 0 has weights, which torchtitan's loss does not take"):
        next(SlimPackDataLoader([one], 8).rows())
