"""The GPU that a process takes, and the words of processes that have none. GPUs are made up here."""

import pytest
import torch
from slimpack import runtime, worker
from slimpack.own_gpu import set_cuda_defaults, take_gpu
from slimpack.torch import pipeline


@pytest.fixture(name="taken")
def fixture_taken(monkeypatch):
    """The GPUs that were taken, of two that there are."""
    taken = []
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "set_device", taken.append)
    monkeypatch.setenv("RANK", "2")
    monkeypatch.setenv("WORLD_SIZE", "3")
    return taken


@pytest.mark.parametrize(("local_rank", "gpu"), [("0", 0), ("1", 1), (None, 0)])
def test_a_process_takes_the_gpu_of_its_number(taken, monkeypatch, local_rank, gpu):
    monkeypatch.delenv("LOCAL_RANK", raising=False)
    if local_rank is not None:
        monkeypatch.setenv("LOCAL_RANK", local_rank)
    take_gpu("wait")
    assert taken == [gpu]


def test_cuda_is_told_what_the_user_has_not_set(monkeypatch):
    names = ["PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF", "CUDA_MODULE_LOADING",
             "CUDA_DEVICE_MAX_CONNECTIONS"]
    settings = {}
    monkeypatch.setattr("os.environ", settings)
    set_cuda_defaults()
    assert [settings.get(name) for name in names] == ["expandable_segments:True", None, "EAGER", "32"]
    for name in names:  # whichever of the allocator's two names the user has taken
        settings.clear()
        settings[name] = "mine"
        set_cuda_defaults()
        assert settings[name] == "mine"
    assert settings.keys() == {"PYTORCH_CUDA_ALLOC_CONF", *names[2:]}
    settings.clear()
    settings["PYTORCH_ALLOC_CONF"] = "mine"
    set_cuda_defaults()
    assert "PYTORCH_CUDA_ALLOC_CONF" not in settings


class Cuda:
    """A runtime whose run file asks for a GPU."""

    class TrainArguments:
        pass

    @staticmethod
    def process_needs(*_):
        return type("Needs", (), dict(device="cuda", timeout=1, groups=[]))


@pytest.mark.parametrize(("start", "remedy"), [
    (lambda: pipeline.launch(lambda: None), "CUDA_VISIBLE_DEVICES="),
    (lambda: worker.main(["run.toml"]), "set train.device to cpu")], ids=["launch", "worker"])
def test_a_process_without_a_gpu_ends_before_it_joins_the_others(taken, monkeypatch, capsys, start,
                                                                 remedy):
    monkeypatch.setattr(runtime, "load", lambda: Cuda)
    monkeypatch.setenv("LOCAL_RANK", "2")
    with pytest.raises(SystemExit) as ended:
        start()
    told = capsys.readouterr().err.splitlines()
    assert ended.value.code == 2 and taken == [] and len(told) == 1
    assert told[0].startswith("slimpack: process 2 of this machine has no GPU, it finds 2; ")
    assert "--nproc-per-node" in told[0] and remedy in told[0]
