"""Files of the release before the redesign are read, compared, merged and explained, with the right answers.

`tests/fixtures/old/README.md` says how they were made. Their rows have no columns `draws` and `is_view`.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch

import jumar
from jumar.cli.main import main
from jumar.operators import draws, has
from jumar.recording import Recording

OLD = Path(__file__).parents[1] / "fixtures" / "old"
RECORDINGS = ["fault", "reference", "seed", "stats", "tensors"]


def answer(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict:
    main([*arguments, "--json"])
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("name", RECORDINGS)
def test_a_recording_is_read_whole(name: str) -> None:
    recording = Recording.open(OLD / name)
    assert (recording.warnings, recording.info.schema_version) == ([], 2)
    rows = [row for step in recording.steps() for row in recording.rows(step) if row.kind == "op"]
    assert {"aten::_standard_gamma", "aten::randn"} <= {row.name for row in rows if draws(row.name)}
    assert {"aten::t", "aten::view", "aten::transpose.int"} <= {row.name for row in rows if has(row.name, "view")}


def test_whole_tensors_are_read() -> None:
    recording = Recording.open(OLD / "tensors")
    row = next(row for row in recording.rows(0) if row.name == "aten::gelu")
    tensors = recording.tensors(row)
    assert tensors["output.0"] == pytest.approx(
        torch.nn.functional.gelu(torch.from_numpy(tensors["input.0"])).numpy(), abs=1e-6
    )


def test_the_fault_is_found(capsys: pytest.CaptureFixture[str]) -> None:
    found = answer(capsys, "compare", str(OLD / "reference"), str(OLD / "fault"))
    (first,) = (finding for finding in found["findings"] if finding["code"] == "JM301")
    assert (found["status"], first["where"]["operator"], first["where"]["module_path"]) == (
        "diverge",
        "aten::gelu",
        "act",
    )
    assert first["evidence"]["arguments"] == {"approximate": ["(default)", "tanh"]}


def test_other_draws_are_no_divergence(capsys: pytest.CaptureFixture[str]) -> None:
    found = answer(capsys, "compare", str(OLD / "reference"), str(OLD / "seed"))
    assert found["status"] == "incomparable"
    assert "aten::_standard_gamma" in found["headline"]
    assert "JM301" not in {finding["code"] for finding in found["findings"]}


@pytest.mark.parametrize("target", ["stats", "tensors"])
def test_recordings_of_other_values_agree(target: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert answer(capsys, "compare", str(OLD / "reference"), str(OLD / target))["status"] == "agree"


def test_an_overflow_is_looked_for(capsys: pytest.CaptureFixture[str]) -> None:
    assert answer(capsys, "overflow", str(OLD / "reference"))["findings"] == []


def test_the_operators_of_a_recording_are_assessed_and_advised_on(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["assess", str(OLD / "reference"), "--fail-on", "never"]) == 0
    assert main(["advise", str(OLD / "reference"), "--fail-on", "never"]) == 0
    assert "aten::_standard_gamma" in capsys.readouterr().out


@pytest.fixture
def bank(tmp_path: Path) -> str:
    """Return the folder of a copy of the old bank."""
    return str(shutil.copytree(OLD / "bank", tmp_path / "old-bank"))


def test_the_bank_is_listed_explained_and_whole(bank: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bank", "list", "--bank", bank]) == 0
    said = capsys.readouterr().out
    assert "2 policies and 1 without a faster one" in said
    assert "npu_format weight=FRACTAL_Z" in said
    assert main(["bank", "show", "0c111ed118e3", "--bank", bank]) == 0
    assert "27.08 → 23.41 us, +15.7 % (an estimate, not a measurement)" in capsys.readouterr().out
    assert main(["bank", "verify", "--bank", bank]) == 0


def test_a_bank_takes_over_what_an_old_one_knows(bank: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    new, file = str(shutil.copytree(bank, tmp_path / "new-bank")), str(tmp_path / "bank.json")
    assert main(["bank", "prune", "--unsatisfied", "--bank", new]) == 0
    assert main(["bank", "merge", bank, "--bank", new]) == 0
    assert "1 operator added, 0 replaced by better policies, 2 kept" in capsys.readouterr().out
    assert main(["bank", "export", "--bank", bank, "-o", file]) == 0
    assert main(["bank", "import", file, "--bank", new]) == 0
    capsys.readouterr()
    assert main(["bank", "list", "--bank", new]) == 0
    assert "2 policies and 1 without a faster one" in capsys.readouterr().out


@pytest.mark.slow
def test_an_operator_of_the_bank_has_the_key_that_it_has_today(
    bank: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(OLD)
    assert main(["bank", "why-miss", "models:make", "--bank", bank, "--device", "npu:Ascend910A"]) == 0
    said = capsys.readouterr().out
    assert "knows 1 of 1 graphs of models:make" in said


def test_the_artefact_of_another_release_computes_what_the_model_computes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(OLD))
    from models import make

    model, inputs = make()
    loaded = jumar.load(OLD / "net.jumar", fallback=True)
    with torch.no_grad():
        torch.testing.assert_close(loaded(*inputs), model(*inputs), rtol=1e-4, atol=1e-5)
