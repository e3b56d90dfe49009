"""slimpack.torch takes the newest FlashAttention that is installed and that torch can put in place."""

import sys
import types

import pytest
import torch

from slimpack.torch.pipeline import flash_release


class StandIn:
    """torch's registry, which notes what was activated."""

    def __init__(self, monkeypatch, major, installed, broken=()):
        self.active = None
        self.broken = broken
        monkeypatch.setattr(torch.nn.attention, "activate_flash_attention_impl", self.activate,
                            raising=False)
        monkeypatch.setattr(torch.nn.attention, "current_flash_attention_impl",
                            lambda: self.active, raising=False)
        monkeypatch.setattr(torch.cuda, "get_device_capability", lambda: (major, 0))
        monkeypatch.setattr(flash_release, "_is_installed", lambda module: module in installed)

    def activate(self, name):
        if name in self.broken:
            raise RuntimeError(f"{name} needs another torch\nand more lines")
        self.active = name


FOUR, THREE = "flash_attn.cute.interface", "flash_attn_interface"


@pytest.mark.parametrize("major, installed, active, line", [
    (9, [], None, None),
    (9, [FOUR, THREE], "FA4", "attention: FlashAttention-4"),
    (9, [THREE], "FA3", "attention: FlashAttention-3"),
    (10, [FOUR, THREE], "FA4", "attention: FlashAttention-4"),
    (8, [THREE], None, "attention: FlashAttention-2, not FlashAttention-3: "
                       "it is not for GPUs of compute capability 8"),
])
def test_the_newest_release_for_the_gpu_is_taken(monkeypatch, major, installed, active, line):
    torch_has = StandIn(monkeypatch, major, installed)
    assert flash_release.activate_newest() == line
    assert torch_has.active == active


def test_a_package_that_does_not_fit_is_named_and_the_next_one_taken(monkeypatch):
    torch_has = StandIn(monkeypatch, 9, [FOUR, THREE], broken=["FA4"])
    assert flash_release.activate_newest() == (
        "attention: FlashAttention-3, not FlashAttention-4: FA4 needs another torch")
    assert torch_has.active == "FA3"


def test_what_the_program_chose_stays(monkeypatch):
    torch_has = StandIn(monkeypatch, 9, [FOUR])
    torch_has.active = "FA3"
    assert flash_release.activate_newest() == "attention: FlashAttention-3, as the program chose"
    assert torch_has.active == "FA3"


def test_releases_of_torch_that_cannot_exchange_it_keep_theirs(monkeypatch):
    monkeypatch.delattr(torch.nn.attention, "activate_flash_attention_impl", raising=False)
    assert flash_release.activate_newest() is None


def test_a_package_is_found_only_where_torch_would_import_it(monkeypatch):
    assert not flash_release._is_installed("flash_attn_of_nobody.cute.interface")
    monkeypatch.setitem(sys.modules, "flash_attn_of_somebody", types.ModuleType("m"))
    assert not flash_release._is_installed("flash_attn_of_somebody.cute")
    assert flash_release._is_installed("torch.nn.attention")


def test_torchs_registry_has_the_names_that_are_asked_for():
    if not hasattr(torch.nn.attention, "list_flash_attention_impls"):
        pytest.skip("this torch cannot exchange its flash attention")
    known = torch.nn.attention.list_flash_attention_impls()
    assert {name for name, *_ in flash_release._NEWER} <= set(known)
