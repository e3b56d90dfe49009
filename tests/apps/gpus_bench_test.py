"""bench/gpus, as far as it goes without GPUs: two processes over Gloo."""

import importlib.util
import json
import sys
from pathlib import Path

import pytest
import torch
from forking import forked_job
from processes import BUILD

PROGRAM = Path(__file__).parents[2] / "bench" / "gpus" / "run.py"


@pytest.fixture
def text(tmp_path):
    """Documents of 100 to 2,000 bytes."""
    folder = tmp_path / "text"
    folder.mkdir()
    for number in range(12):
        (folder / f"{number}.py").write_text(f"x = {number}\n" * (13 + 22 * number))
    return folder


@pytest.fixture
def program(monkeypatch):
    """The program as a module. Torchrun starts its first job, the others fork: it starts all alike."""
    monkeypatch.syspath_prepend(PROGRAM.parent)
    monkeypatch.delitem(sys.modules, "page", raising=False)  # another program's
    spec = importlib.util.spec_from_file_location("gpus_run", PROGRAM)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    by_torchrun, begun = module.Bench.torchrun, []

    def start(bench, ranks, *arguments):
        begun.append(arguments)
        if len(begun) == 1:
            return by_torchrun(bench, ranks, *arguments)
        with forked_job(bench.folder, *[arguments] * ranks) as processes:
            assert processes.codes() == [0] * ranks, processes.text()
            return processes.text()

    monkeypatch.setattr(module.Bench, "torchrun", start)
    return module


@pytest.mark.whole
@pytest.mark.skipif(torch.cuda.is_available(), reason="for machines without a GPU")
def test_on_gloo_it_checks_losses_and_measures_links_steps_and_fsdp2(program, text, tmp_path, monkeypatch,
                                                                    capsys):
    arguments = [PROGRAM, "--build", BUILD, "--grid", "1,2,1", "--check-steps", "2", "--text", text, "--json",
                 tmp_path / "new" / "gpus.json", "--page", tmp_path / "gpus.md"]
    monkeypatch.setattr(sys, "argv", list(map(str, arguments)))
    with pytest.raises(SystemExit) as ended:
        program.main()
    printed, said = capsys.readouterr()
    assert ended.value.code == 0, printed + said
    found = json.loads((tmp_path / "new" / "gpus.json").read_text())
    assert found["failed"] == []
    (check,) = found["checks"]
    assert check["holds"] and len(check["losses"]) == 2
    assert {"to the next rank", "all_reduce", "reduce_scatter", "all_gather"} == {
        link["operation"] for link in found["links"]}
    assert [way["way"] for way in found["ways"]] == [
        "slimpack, pp 1 × dp 2 × tp 1", "packed, pp 1 × dp 2 × tp 1", "FSDP2, packed"]
    assert len({way["tokens"] for way in found["ways"]}) == 1  # the same documents
    page = (tmp_path / "gpus.md").read_text()
    assert page.strip() == printed.strip()
    assert "There is no CUDA device here" in page and "| FSDP2, packed |" in page
