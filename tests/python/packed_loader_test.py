"""PackedDataLoader: exact with workers, under transformers.Trainer and under accelerate."""

import collections
import itertools
import json
from pathlib import Path

import numpy as np
import pytest
import slimpack
import torch
from accelerate import Accelerator
from accelerate.data_loader import prepare_data_loader
from forking import forked_job
from slimpack.torch import PackedCollator, PackedDataLoader, SlimPackSampler
from trainer_rank import PackedTrainer, arguments, numbered, tiny_model
from transformers import DataCollatorWithFlattening

LENGTHS = np.random.default_rng(0).integers(2, 50, 60)
DOCUMENTS = numbered(LENGTHS)


def sampler(**changes):
    return SlimPackSampler(LENGTHS, **{"max_tokens": 64, "ranks": 1, "rank": 0, "micro_batches": 2, **changes})


def documents_of(batches):
    return [sorted(set(batch["input_ids"][batch["labels"] != -100].tolist())) for batch in batches]


def plain(**options):
    return torch.utils.data.DataLoader(DOCUMENTS, batch_sampler=sampler(), collate_fn=PackedCollator(), **options)


@pytest.mark.cases
@pytest.mark.parametrize("ranks", [1, 3])
@pytest.mark.parametrize("options", [{"num_workers": 2}, {"num_workers": 1, "prefetch_factor": 5}, {},
                                     {"num_workers": 2, "persistent_workers": True}])
def test_a_stop_after_any_batch_loses_and_repeats_nothing(options, ranks):
    def loader():
        return PackedDataLoader(DOCUMENTS, sampler(ranks=ranks, rank=ranks - 1), **options)

    whole = loader()
    epochs = documents_of(whole) + documents_of(whole)
    count = len(whole)
    assert len(epochs) == 2 * count
    one = loader()
    for stop in (0, 1, count // 2, count - 1, count):
        one.set_epoch(0)
        before = documents_of(itertools.islice(one, stop))
        other = loader()
        other.load_state_dict(one.state_dict())
        assert before + documents_of(itertools.chain(other, other))[:2 * count - stop] == epochs
        one.load_state_dict(loader().state_dict())


def test_a_state_before_the_first_batch_is_the_beginning():
    loader = PackedDataLoader(DOCUMENTS, sampler(), num_workers=2)
    batches = iter(loader)
    assert loader.state_dict() == sampler().state_dict()
    next(batches)


def test_a_sampler_below_workers_refuses_to_say_where_the_trainer_is():
    loader = plain(num_workers=2)
    next(iter(loader))
    with pytest.raises(slimpack.InvalidInput, match="draws batches ahead, .*; take slimpack.torch.PackedDataLoader"):
        for _ in loader:
            loader.batch_sampler.state_dict()


def test_whole_epochs_of_a_plain_loader_are_exact():
    for options in ({}, {"num_workers": 2}):
        loader, ours = plain(**options), PackedDataLoader(DOCUMENTS, sampler())
        for _ in range(2):
            taken = documents_of(itertools.islice(loader, len(loader)))
            assert taken == documents_of(ours) and sorted(itertools.chain(*taken)) == list(range(60))


def test_other_collators_get_a_document_without_labels_for_a_rank_without_documents():
    documents = numbered([30, 5, 40])
    lengths = [len(d["input_ids"]) for d in documents]
    collate = DataCollatorWithFlattening(return_tensors="pt")
    batches = []
    for rank in range(4):
        s = SlimPackSampler(lengths, 64, ranks=4, rank=rank, micro_batches=1)
        batches += PackedDataLoader(documents, s, collate_fn=collate)
    assert sorted(batch["labels"].shape[1] for batch in batches) == [5, 5, 30, 40]
    assert sorted(documents_of(batches)) == [[], [0], [1], [2]]


@pytest.mark.parametrize(("make", "message"), [
    (lambda: PackedDataLoader(DOCUMENTS[:9], sampler()), r"has 9 documents, the sampler has 60 lengths"),
    (lambda: PackedDataLoader(iter(DOCUMENTS), sampler()), r"has no number of documents"),
    (lambda: PackedDataLoader(DOCUMENTS, sampler(), num_workers=1, in_order=False), r"in_order is False"),
    (lambda: PackedDataLoader(DOCUMENTS, range(3)), r"the sampler is a range, must be a SlimPackSampler"),
])
def test_bad_input_is_refused(make, message):
    with pytest.raises(slimpack.InvalidInput, match=message):
        make()


@pytest.mark.cases
@pytest.mark.parametrize("workers", [2, 0])
def test_trainer_trains_each_document_once_an_epoch_and_resumes_with_the_same_bits(tmp_path, workers):
    documents = DOCUMENTS[:30]

    def trainer(folder, **changes):
        return PackedTrainer(tiny_model(), arguments(folder, dataloader_num_workers=workers, **changes),
                             train_dataset=documents)

    whole = trainer(tmp_path / "whole", save_strategy="steps", save_steps=2)
    whole.train()
    assert collections.Counter(itertools.chain(*whole.trained)) == dict.fromkeys(range(30), 2)
    steps = whole.state.global_step
    assert len(whole.trained) == 4 * steps and steps % 4 == 0
    for step in (2, steps // 2):  # inside the first epoch, and between the epochs
        again = trainer(tmp_path / "again")
        again.train(resume_from_checkpoint=str(tmp_path / "whole" / f"checkpoint-{step}"))
        assert again.trained == whole.trained[4 * step:]
        for ours, expected in zip(again.model.parameters(), whole.model.parameters(), strict=True):
            assert torch.equal(ours, expected)


def test_trainer_on_two_ranks_trains_as_on_one(tmp_path):
    """The last step is trained alike, too, where 21 documents leave a rank none."""
    script = Path(__file__).parents[1] / "support" / "trainer_rank.py"
    count, found = 21, {}
    for ranks in (1, 2):
        folder = tmp_path / str(ranks)
        folder.mkdir()
        with forked_job(folder, *([script, folder, count, 2 // ranks] for _ in range(ranks))) as running:
            assert set(running.codes()) == {0}, running.text()
        found[ranks] = [json.loads((folder / f"{rank}.json").read_text()) for rank in range(ranks)]
    for of_ranks in found.values():
        times = collections.Counter(itertools.chain(*(batch for one in of_ranks for batch in one["trained"])))
        assert times == dict.fromkeys(range(count), 2)
    assert len({len(one["trained"]) for one in found[2]}) == 1 and [] in found[2][1]["trained"]
    assert np.allclose(found[2][0]["losses"], found[1][0]["losses"], rtol=1e-4)


def test_accelerate_leaves_the_loader_as_it_is():
    loader = PackedDataLoader(DOCUMENTS, sampler())
    assert Accelerator(cpu=True).prepare(loader) is loader


def test_accelerate_saves_and_loads_the_place(tmp_path):
    accelerator, loader = Accelerator(cpu=True), PackedDataLoader(DOCUMENTS, sampler(), num_workers=2)
    accelerator.register_for_checkpointing(accelerator.prepare(loader))
    batches = iter(loader)
    before = documents_of(itertools.islice(batches, 5))
    accelerator.save_state(tmp_path)
    rest = documents_of(batches)
    assert sorted(itertools.chain(*before, *rest)) == list(range(60))
    accelerator.load_state(tmp_path)
    assert documents_of(loader) == rest


def test_accelerate_is_refused_to_deal_out_what_is_dealt_out():
    with pytest.raises(slimpack.InvalidInput, match="every rank its own micro-batches already") as refused:
        prepare_data_loader(plain(), num_processes=2, process_index=0)
    assert "\n" not in str(refused.value)


def test_accelerate_on_one_rank_gives_whole_epochs_and_refuses_a_state_that_is_a_batch_ahead():
    prepared = prepare_data_loader(plain())
    for _ in range(2):
        assert sorted(itertools.chain(*documents_of(prepared))) == list(range(60))
    next(iter(prepared))
    with pytest.raises(slimpack.InvalidInput, match="a loader with workers or of accelerate draws batches ahead"):
        prepared.batch_sampler.state_dict()
