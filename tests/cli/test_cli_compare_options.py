from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

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


def recording(folder: Path, *, eps: float = 1e-5, **options: Any) -> str:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 8), nn.LayerNorm(8, eps=eps), nn.Linear(8, 1))
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    with record(str(folder), model=model, **options):
        for batch in torch.randn(2, 4, 8):
            optimizer.zero_grad()
            model(batch).square().mean().backward()
            optimizer.step()
    return str(folder)


def pair(tmp_path: Path, **options: Any) -> list[str]:
    return [recording(tmp_path / "a", **options), recording(tmp_path / "b", eps=1e-2, **options)]


def test_the_suspects_are_what_a_second_recording_keeps_whole(tmp_path, capsys) -> None:
    suspects = tmp_path / "suspects.json"
    assert main(["compare", *pair(tmp_path), "--suspects", str(suspects)]) == 1
    assert "0:op/forward/1/aten::native_layer_norm/0" in json.loads(suspects.read_text(encoding="utf-8"))
    capsys.readouterr()
    second = tmp_path / "second"
    second.mkdir()
    assert main(["compare", *pair(second, tensors_of=(str(suspects),)), "--json"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert document["evidence"] == "tensors"
    (best, *_) = [one for one in document["diagnosis"]["suspicions"] if one["seen_in"] == "tensors"]
    assert best["hypothesis"]["kind"] == "normalisation"


def test_json_holds_the_way_through_the_flow(tmp_path, capsys) -> None:
    main(["compare", *pair(tmp_path), "--json"])
    diagnosis = json.loads(capsys.readouterr().out)["diagnosis"]
    assert diagnosis["cause"] == "forward"
    assert diagnosis["path"][-1]["cause"] == "forward"


def test_the_page_of_whole_tensors_has_pictures_and_three_numbers(tmp_path) -> None:
    report = tmp_path / "accuracy.html"
    main(["compare", *pair(tmp_path, values="tensors"), "--report", str(report)])
    html = report.read_text(encoding="utf-8")
    assert "data:image/png;base64," in html
    assert "Executed again in float64" in html
    assert "jumar repro" in html


@pytest.mark.parametrize(
    ("option", "value", "word"),
    [
        ("--ranks", "0-1", "--ranks 0:0,1:1"),
        ("--steps", "5:2", "--steps 2:5"),
        ("--rename", "missing.txt", "missing.txt"),
    ],
)
def test_an_option_in_another_form_is_one_sentence(tmp_path, capsys, option: str, value: str, word: str) -> None:
    assert main(["compare", *pair(tmp_path), option, value]) == 2
    error = capsys.readouterr().err
    assert word in error
    assert "Traceback" not in error


def test_renames_are_read_from_a_file(tmp_path, capsys) -> None:
    renames = tmp_path / "renames.txt"
    renames.write_text("1 -> 1\n", encoding="utf-8")
    reference = recording(tmp_path / "a")
    assert main(["compare", reference, recording(tmp_path / "b"), "--rename", str(renames)]) == 0
    assert capsys.readouterr().out.startswith("The runs agree: ")


def test_a_floor_is_measured_from_a_further_recording(tmp_path, capsys) -> None:
    reference, target = pair(tmp_path)
    assert main(["compare", reference, target, "--floor", recording(tmp_path / "floor")]) == 1
    assert capsys.readouterr().out.startswith("The runs diverge first at aten::native_layer_norm")
