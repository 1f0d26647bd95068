from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch import nn

from jumar.capture import record
from jumar.cli.main import main


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def recording(folder: Path, *, eps: float = 1e-5, num_steps: int = 2) -> str:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 8), nn.LayerNorm(8, eps=eps), nn.Linear(8, 1))
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    inputs = torch.randn(num_steps, 4, 8)
    with record(str(folder), model=model):
        for batch in inputs:
            optimizer.zero_grad()
            model(batch).square().mean().backward()
            optimizer.step()
    return str(folder)


def test_agreeing_runs_exit_with_0(tmp_path, capsys) -> None:
    assert main(["compare", recording(tmp_path / "a"), recording(tmp_path / "b")]) == 0
    assert capsys.readouterr().out.startswith("The runs agree: ")


def test_diverging_runs_exit_with_1_and_the_answer_comes_first(tmp_path, capsys) -> None:
    assert main(["compare", recording(tmp_path / "a"), recording(tmp_path / "b", eps=1e-2)]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("The runs diverge first at aten::native_layer_norm in 1 (LayerNorm), forward of step 0")
    assert len(lines) <= 15
    assert any("eps 1e-05 against 0.01" in line for line in lines)


def test_fail_on_never_exits_with_0(tmp_path) -> None:
    arguments = ["compare", recording(tmp_path / "a"), recording(tmp_path / "b", eps=1e-2), "--fail-on", "never"]
    assert main(arguments) == 0


def test_json_is_one_document(tmp_path, capsys) -> None:
    main(["compare", recording(tmp_path / "a"), recording(tmp_path / "b", eps=1e-2), "--json"])
    document = json.loads(capsys.readouterr().out)
    assert (document["status"], document["findings"][0]["code"]) == ("diverge", "JM301")
    assert document["first_divergence"]["arguments"][0]["name"] == "eps"


def test_the_report_is_written_and_not_replaced(tmp_path, capsys) -> None:
    report = tmp_path / "accuracy.html"
    arguments = ["compare", recording(tmp_path / "a"), recording(tmp_path / "b", eps=1e-2), "--report", str(report)]
    main(arguments)
    assert "native_layer_norm" in report.read_text(encoding="utf-8")
    assert main(arguments) == 2
    assert "--force" in capsys.readouterr().err


def test_a_folder_that_is_no_recording_is_wrong_use(tmp_path, capsys) -> None:
    assert main(["compare", recording(tmp_path / "a"), str(tmp_path / "missing")]) == 2
    error = capsys.readouterr().err
    assert "missing" in error
    assert "Traceback" not in error


def test_a_newer_schema_is_wrong_use(tmp_path, capsys) -> None:
    newer = Path(recording(tmp_path / "b"))
    info = json.loads((newer / "run.json").read_text())
    (newer / "run.json").write_text(json.dumps(info | {"schema_version": 99}))
    assert main(["compare", recording(tmp_path / "a"), str(newer)]) == 2
    assert "99" in capsys.readouterr().err


def test_a_damaged_step_is_said_and_the_others_are_compared(tmp_path, capsys) -> None:
    damaged = Path(recording(tmp_path / "b", num_steps=3))
    step = damaged / "steps" / "step-000001-rank-0.parquet"
    step.write_bytes(step.read_bytes()[:100])
    assert main(["compare", recording(tmp_path / "a", num_steps=3), str(damaged)]) == 1
    out = " ".join(capsys.readouterr().out.split())
    assert "in 2 of the reference's 3 steps" in out
    assert "Only the reference has step [1]" in out
    assert "step-000001-rank-0.parquet is cut short" in out


def test_steps_and_tolerance_are_options(tmp_path, capsys) -> None:
    a, b = recording(tmp_path / "a"), recording(tmp_path / "b")
    assert main(["compare", a, b, "--steps", "1:2"]) == 0
    assert "in 1 step" in capsys.readouterr().out
    assert main(["compare", a, b, "--tolerance", "0"]) == 2
    assert main(["compare", a, b, "--steps", "5:2"]) == 2
