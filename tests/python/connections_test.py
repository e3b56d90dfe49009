"""Groups of all ranks connect late, others at once."""

import os

import pytest
from slimpack.connections import connecting_late

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
