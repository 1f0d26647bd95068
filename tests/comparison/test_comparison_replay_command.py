"""`jumar replay` on the command line, and its page."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from fault_models import Fault
from torch.nn import functional

import jumar
from jumar.cli.main import main


def record(path: Path, fault: Fault | None = None) -> Path:
    torch.manual_seed(0)
    x, weight = torch.randn(6, 8), torch.randn(4, 8)

    def program() -> None:
        functional.gelu(functional.linear(x, weight)).sum()
        torch.rand(2)

    if fault is None:
        with jumar.record(path, values="tensors"):
            program()
    else:
        with fault, jumar.record(path, values="tensors"):
            program()
    return path


@pytest.fixture(scope="module")
def recordings(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    folder = tmp_path_factory.mktemp("recordings")
    wrong = Fault("aten::gelu", lambda func, args, kwargs: func(*args, approximate="tanh"))
    return str(record(folder / "bad", wrong)), str(record(folder / "good"))


def test_the_exit_code_says_whether_an_operator_is_at_fault(
    recordings: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    bad, good = recordings
    assert main(["replay", good]) == 0
    assert capsys.readouterr().out.startswith("No operator has an error of its own: ")
    assert main(["replay", bad]) == 1
    assert "aten::gelu" in capsys.readouterr().out.splitlines()[0]
    assert main(["replay", bad, "--fail-on", "never"]) == 0
    assert main(["replay", bad, "--ops", "aten::sum"]) == 0


def test_the_table_has_the_three_numbers(recordings: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    main(["replay", *recordings, "--on", "cpu"])
    lines = capsys.readouterr().out.splitlines()
    titles = next(line for line in lines if line.lstrip().startswith("own"))
    assert titles.split() == ["own", "ulps", "rounding", "reference", "inherited", "on", "cpu", "verdict", "operator"]
    assert len(lines) < 15


def test_json_holds_every_operator(recordings: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    main(["replay", *recordings, "--json"])
    document = json.loads(capsys.readouterr().out)
    operators = {operator["name"]: operator for operator in document["operators"]}
    assert operators["aten::gelu"]["verdict"] == "own fault"
    assert operators["aten::gelu"]["inherited"] == 0.0
    assert operators["aten::sum"]["verdict"] == "inherited"
    assert operators["aten::rand"]["cause"] == "random"
    assert [finding["code"] for finding in document["findings"]] == ["JM325", "JM326", "JM327"]


def test_the_page_shows_the_numbers_and_what_is_left_out(recordings: tuple[str, str], tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    main(["replay", *recordings, "--report", str(page)])
    text = page.read_text("utf-8")
    assert all(word in text for word in ("own fault", "inherited", "Not replayed", "aten::rand", "JM325"))


def test_wrong_use_is_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["replay", str(tmp_path / "nothing")]) == 2
    assert capsys.readouterr().err.splitlines()[-1].startswith(f"jumar: {tmp_path / 'nothing'} is not a folder.")
