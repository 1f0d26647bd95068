"""Recordings of an earlier schema, of tensors that are lost, and of runs that are still going on."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
import torch

from jumar.capture import record
from jumar.comparison import compare
from jumar.recording import Recording, Values

VERSION_1 = Path(__file__).parents[1] / "recording" / "assets" / "version-1"
"""Two steps with whole tensors (those of the second are missing), recorded by the last Jumar with schema version 1."""


def recorded_now(folder: Path, values: Values) -> Path:
    """Record the program that the asset was made with."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
    updates = torch.optim.SGD(model.parameters(), lr=0.1)
    with record(folder, model=model, values=values):
        for _ in range(2):
            updates.zero_grad()
            torch.nn.functional.mse_loss(model(torch.randn(3, 4)), torch.randn(3, 2)).backward()
            updates.step()
    return folder


def test_a_recording_of_version_1_is_read() -> None:
    recording = Recording.open(VERSION_1)
    assert recording.info.schema_version == 1
    assert (recording.steps(), recording.warnings) == ([0, 1], [])
    rows = recording.rows(0)
    assert all(tensor.sketch is None and not tensor.hash for row in rows for tensor in (*row.inputs, *row.outputs))
    assert recording.step_info(0).rng == {}
    first = next(row for row in rows if row.name == "aten::addmm")
    assert recording.tensors(first)["output.0"].shape == (3, 8)


@pytest.mark.parametrize(
    ("values", "evidence"), [("tensors", "tensors"), ("sketch", "sketches"), ("stats", "statistics")]
)
def test_a_recording_of_version_1_is_compared_with_one_of_today(tmp_path: Path, values: Values, evidence: str) -> None:
    found = compare(VERSION_1, recorded_now(tmp_path / "now", values))
    assert (found.status, found.evidence) == ("agree", evidence), found.headline
    assert not found.findings or all(finding.severity.name != "ERROR" for finding in found.findings)


def test_rows_are_compared_where_a_tensor_file_is_cut_short(tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    shutil.copytree(VERSION_1, broken)
    file = broken / "tensors" / "step-000000-rank-0.h5"
    os.truncate(file, file.stat().st_size // 2)
    found = compare(VERSION_1, broken)
    assert (found.status, found.evidence) == ("agree", "statistics")
    said = "target: step-000000-rank-0.h5 is cut short or damaged: the tensors of that step cannot be read"
    assert said in found.notes


def test_what_is_there_of_a_run_that_still_goes_on_is_compared(tmp_path: Path) -> None:
    growing = tmp_path / "growing"
    shutil.copytree(VERSION_1, growing)
    (growing / "end-rank-0.json").unlink()
    (growing / "steps" / "step-000001-rank-0.parquet").rename(growing / "steps" / ".step-000001-rank-0.parquet.7.part")
    found = compare(VERSION_1, growing)
    assert found.status == "agree"
    assert "target: rank 0 did not end: the run was killed after step 0, or is still going on" in found.notes
    assert "rank 0: steps [1] are in one recording only and are not compared" in found.notes
