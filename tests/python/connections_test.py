"""Groups of all ranks connect late, others at once; on GPUs with options for NCCL by what they exchange."""

import datetime
import os
from types import SimpleNamespace

import pytest
import torch
import torch.distributed as dist
from slimpack import worker
from slimpack.connections import connecting_late, nccl_options

LAZY = "TORCH_GLOO_LAZY_INIT"


def test_only_groups_that_are_made_inside_connect_late(monkeypatch):
    monkeypatch.delenv(LAZY, raising=False)
    with connecting_late():
        assert os.environ[LAZY] == "1"
    assert LAZY not in os.environ
    with connecting_late(False):
        assert LAZY not in os.environ
    with pytest.raises(RuntimeError), connecting_late():
        raise RuntimeError
    assert LAZY not in os.environ


def test_what_the_user_set_stays(monkeypatch):
    monkeypatch.setenv(LAZY, "0")
    with connecting_late():
        assert os.environ[LAZY] == "0"
    assert os.environ[LAZY] == "0"


class Options:
    """In place of torch.distributed.ProcessGroupNCCL.Options, which torch lacks on a machine without
    NCCL. _timeout and the fields of config are those of torch."""

    def __init__(self, is_high_priority_stream=False):
        self.is_high_priority_stream = is_high_priority_stream
        self.config = SimpleNamespace(max_ctas=None)
        self._timeout = None


MINUTE = datetime.timedelta(minutes=1)


@pytest.fixture
def nccl(monkeypatch):
    monkeypatch.setattr(dist, "ProcessGroupNCCL", SimpleNamespace(Options=Options), raising=False)


@pytest.mark.parametrize(("kind", "blocks"), [("forward", 4), ("ring backward", 4), ("data", 8),
                                              ("data in node", 8), ("tensor", None)])
def test_messages_and_sums_leave_multiprocessors_to_computation(nccl, kind, blocks):
    options = nccl_options(kind, MINUTE)
    assert options.is_high_priority_stream and options._timeout == MINUTE
    assert options.config.max_ctas == blocks
    assert nccl_options(kind, MINUTE) is not options


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_only_groups_on_gpus_have_options_and_patient_replicas(nccl, monkeypatch, device):
    """A group of edges, one of replicas, and the world, which is on the CPU."""
    made = []

    def new_group(ranks, **options):
        made.append({**options, "late": os.environ.get(LAZY) == "1"})
        return SimpleNamespace(group_name=f"group {len(made)}")

    monkeypatch.delenv(LAZY, raising=False)
    monkeypatch.setattr(dist, "init_process_group", lambda backend, timeout: None)
    monkeypatch.setattr(dist, "new_group", new_group)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 3)
    groups = [SimpleNamespace(ranks=[0, 1], kind=kind, on_cpu=kind == "world",
                              sums_gradients=kind == "data") for kind in ("forward", "data", "world")]
    assert worker.connect(groups, device, MINUTE) == ["group 1", "group 2", "group 3"]
    edge, data, world = made
    assert world["pg_options"] is None and world["backend"] == "gloo" and world["late"]
    assert not edge["late"] and edge["timeout"] == world["timeout"] == MINUTE
    on_gpu = device == "cuda"
    assert data["late"] == on_gpu and data["timeout"] == (4 if on_gpu else 1) * MINUTE
    for group, blocks in ((edge, 4), (data, 8)):
        assert (group["device_id"], group["backend"]) == (torch.device("cuda", 3) if on_gpu else None, None)
        options = group["pg_options"]
        assert (options and options.config.max_ctas) == (blocks if on_gpu else None)
        assert options is None or options._timeout == group["timeout"]
    assert world["device_id"] is None
