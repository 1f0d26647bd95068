from __future__ import annotations

from pathlib import Path

import pytest

from jumar.base.errors import RecordingError
from jumar.convert.assess import Assessment, Row, assess_recording
from jumar.recording import CallRow, Recording, RecordingWriter, RunEnd, RunInfo, TensorRow


def tensor(name: str, dtype: str = "float32", device: str = "npu:0") -> TensorRow:
    return TensorRow(
        name=name, shape=(2, 2), dtype=dtype, device=device, stride=(2, 1), storage_offset=0, contiguous=True
    )


def call(
    name: str, seq: int, duration_us: float = 10.0, *, dtype: str = "float32", device: str = "npu:0", kind: str = "op"
) -> CallRow:
    return CallRow(
        step=0,
        rank=0,
        seq=seq,
        kind=kind,  # type: ignore[arg-type]
        phase="forward",
        module_path=f"layer{seq % 2}",
        module_type="Linear",
        name=name,
        occurrence=seq,
        source=f"train.py:{40 + seq % 2}",
        duration_us=duration_us,
        inputs=(tensor("input.0", dtype, device),),
        outputs=(tensor("output.0", dtype, device),),
    )


def record(path: Path, rows: list[CallRow], **info: object) -> Path:
    fields = {"device": "npu (emulated)", "soc": "Ascend910B1"} | info
    writer = RecordingWriter(path, RunInfo(**fields))  # type: ignore[arg-type]
    writer.write_step(0, rows)
    writer.close(RunEnd(rank=0, status="finished", num_steps=1, not_covered=("custom autograd functions",)))
    return path


def row(assessment: Assessment, name: str) -> Row:
    return next(row for row in assessment.rows if row.name == name)


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    rows = [
        call("aten::addmm", 0, 60.0),
        call("aten::addmm", 1, 20.0),
        call("aten::huber_loss", 2, 20.0),
        call("aten::add.Tensor", 3, 0.0, dtype="float64"),
        call("aten::mul.Tensor", 4, 500.0, device="cpu"),
        call("Linear", 5, 900.0, kind="module"),
    ]
    return record(tmp_path / "rec", rows)


def test_calls_and_their_share_of_the_operators_time_are_added_up(recording: Path) -> None:
    found = row(assess_recording(recording), "aten::addmm")
    assert (found.status, found.num_uses, found.duration_us, found.share) == ("native", 2, 80.0, 0.8)


def test_modules_and_operators_on_the_host_are_left_out(recording: Path) -> None:
    assessment = assess_recording(recording)
    assert [found.name for found in assessment.rows] == ["aten::add.Tensor", "aten::addmm", "aten::huber_loss"]
    assert any(note.startswith("Left out 1 operator call") for note in assessment.notes)


def test_operators_of_a_cpu_recording_are_not_left_out(tmp_path: Path) -> None:
    path = record(tmp_path / "rec", [call("aten::addmm", 0, device="cpu")], device="cpu")
    assert [found.name for found in assess_recording(path).rows] == ["aten::addmm"]


def test_each_place_is_named_once_with_module_and_line(recording: Path) -> None:
    found = row(assess_recording(recording), "aten::addmm")
    assert [str(place) for place in found.where] == [
        "train.py:40 · layer0 aten::addmm forward",
        "train.py:41 · layer1 aten::addmm forward",
    ]


def test_a_fallback_is_a_finding_with_its_numbers(recording: Path) -> None:
    found = next(finding for finding in assess_recording(recording).findings if finding.code == "JM204")
    assert "aten::huber_loss (1 call, 20.0% of the recorded operator time)" in found.message
    assert (found.where.line, found.evidence["num_uses"]) == (40, 1)


def test_float64_is_a_finding_that_names_the_operators(recording: Path) -> None:
    found = next(finding for finding in assess_recording(recording).findings if finding.code == "JM206")
    assert found.message.startswith("1 operator ran with float64")


def test_an_operator_that_cannot_run_is_a_warning_where_the_tables_leave_a_doubt(tmp_path: Path) -> None:
    path = record(tmp_path / "rec", [call("aten::_fft_r2c", 0)])
    found = assess_recording(path, "Ascend910A").findings[0]
    assert (found.code, found.severity.label, found.confidence) == ("JM205", "warning", "likely")


def test_bfloat16_that_ran_is_an_error_on_a_chip_without_it(tmp_path: Path) -> None:
    path = record(tmp_path / "rec", [call("aten::addmm", 0, dtype="bfloat16")])
    found = assess_recording(path, "Ascend910A").findings
    assert [(finding.code, finding.severity.label) for finding in found] == [("JM206", "error")]
    assert assess_recording(path).findings == ()


def test_the_soc_of_the_recording_is_the_default(tmp_path: Path) -> None:
    path = record(tmp_path / "rec", [call("aten::addmm", 0)], soc="Ascend910B3")
    assert assess_recording(path).soc == "Ascend910B3"
    assert assess_recording(Recording.open(path), "Ascend910A").soc == "Ascend910A"


def test_what_the_observer_could_not_see_is_said(recording: Path) -> None:
    assert "custom autograd functions" in assess_recording(recording).notes


def test_a_recording_without_operators_says_what_to_do(tmp_path: Path) -> None:
    path = record(tmp_path / "rec", [call("Linear", 0, kind="module")], levels=("module",))
    assessment = assess_recording(path)
    assert assessment.verdict == "No PyTorch operator that needs a device is used."
    assert any("--level module,op" in note for note in assessment.notes)


def test_a_folder_that_is_no_recording_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(RecordingError):
        assess_recording(tmp_path)
