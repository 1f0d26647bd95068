from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jumar.base.errors import RecordingError, UsageError
from jumar.capture import record
from jumar.capture.plans.patterns import read_patterns
from jumar.capture.plans.selection import Selection
from jumar.recording import Recording
from jumar.recording.schema import row_key


def _with_tensors(recording: Recording) -> dict[str, dict[str, np.ndarray]]:
    found: dict[str, dict[str, np.ndarray]] = {}
    for step in recording.steps():
        for row in recording.rows(step):
            try:
                found[f"{step}:{row.key}"] = recording.tensors(row)
            except RecordingError:
                continue
    return found


def test_only_the_rows_that_patterns_name_have_tensors_and_those_are_complete(training, tmp_path: Path) -> None:
    patterns = ["1:op/forward/fc/aten::addmm/0", "module/*/layer1.0/*", "loss/*"]
    with record(tmp_path / "all", values="tensors"):
        training(2)
    with record(tmp_path / "some", tensors_of=patterns):
        training(2)
    everything, some = (_with_tensors(Recording.open(tmp_path / name)) for name in ("all", "some"))
    assert set(some) == {
        "1:op/forward/fc/aten::addmm/0",
        *(f"{step}:module/{phase}/layer1.0/Conv2d/0" for step in (0, 1) for phase in ("forward", "backward")),
        *(f"{step}:loss/forward/-/loss/0" for step in (0, 1)),
    }
    for key, arrays in some.items():
        assert set(arrays) == set(everything[key])
        assert all(np.array_equal(arrays[name], everything[key][name]) for name in arrays)


def test_tensors_of_in_place_and_backward_operators_are_as_with_all_tensors(training, tmp_path: Path) -> None:
    pattern = "op/*/*/aten::*relu*/*"
    with record(tmp_path / "all", values="tensors"):
        training(1)
    with record(tmp_path / "some", tensors_of=pattern, values="none"):
        training(1)
    everything, some = (_with_tensors(Recording.open(tmp_path / name)) for name in ("all", "some"))
    assert some
    for key, arrays in some.items():
        assert {name: array.tobytes() for name, array in arrays.items()} == {
            name: array.tobytes() for name, array in everything[key].items()
        }


def test_other_rows_keep_the_level_of_values(training, tmp_path: Path) -> None:
    with record(tmp_path / "r", tensors_of="op/forward/fc/*", values="stats"):
        training(1)
    rows = [row for row in Recording.open(tmp_path / "r").rows(0) if row.phase != "optimizer" or row.kind != "op"]
    outputs = [tensor for row in rows for tensor in row.outputs if "empty" not in row.name]
    assert all(tensor.l2 is not None for tensor in outputs if 0 not in tensor.shape)


def test_a_pattern_that_meets_no_row_is_said_at_the_end(training, tmp_path: Path) -> None:
    with record(tmp_path / "r", tensors_of=["*/fc/*", "*/blocks.9/*", "7:*/fc/*"]):
        training(2)
    assert Recording.open(tmp_path / "r").ends[0].not_covered == (
        "no recorded row matches '*/blocks.9/*' of tensors-of",
        "no recorded row matches '7:*/fc/*' of tensors-of",
    )


def test_keys_of_suspects_that_only_the_other_run_has_are_not_missed() -> None:
    mine, theirs = "0:op/forward/fc/aten::addmm/0", "0:op/forward/fc/aten::linear/0"
    selection = Selection([mine, theirs, "0:*/nowhere/*"], lambda: 0)
    assert selection.unmet() == [mine, theirs, "0:*/nowhere/*"]
    assert selection.wants("op", "forward", "fc", "aten::addmm", 0)
    assert selection.unmet() == ["0:*/nowhere/*"]


def test_a_file_of_suspects_is_a_list_of_keys(tmp_path: Path) -> None:
    file = tmp_path / "suspects.json"
    file.write_text(json.dumps(["op/forward/fc/aten::addmm/0", " module/forward/-/Net/0 "]))
    assert read_patterns([str(file), "*/fc/*", "*/fc/*"]) == (
        "op/forward/fc/aten::addmm/0",
        "module/forward/-/Net/0",
        "*/fc/*",
    )


@pytest.mark.parametrize(
    ("content", "said"),
    [("{", "holds no JSON"), ("{}", "must hold a list of row keys"), ("[]", "must hold"), ("[1]", "must hold")],
)
def test_a_file_that_holds_something_else_is_refused(tmp_path: Path, content: str, said: str) -> None:
    file = tmp_path / "suspects.json"
    file.write_text(content)
    with pytest.raises(UsageError, match=said):
        read_patterns([str(file)])


@pytest.mark.parametrize(
    ("pattern", "said"), [("gone.json", "cannot be read: No such file"), ("gelu", "Try --tensors-of '"), (" ", "empty")]
)
def test_a_pattern_that_cannot_match_is_refused(pattern: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        read_patterns([pattern])


def test_a_selection_among_all_tensors_is_refused_without_a_budget(tmp_path: Path) -> None:
    with (
        pytest.raises(UsageError, match="chooses nothing"),
        record(tmp_path / "r", values="tensors", tensors_of="*/fc/*"),
    ):
        pass


_NAMES = st.text(st.characters(categories=("L", "N"), include_characters="._[]:-"), min_size=1, max_size=12)


@settings(derandomize=True, max_examples=200, deadline=None)
@given(_NAMES, _NAMES, st.integers(0, 99), st.integers(0, 9))
def test_a_rows_own_key_is_a_pattern_that_matches_it_and_its_neighbour_not(
    path: str, name: str, occurrence: int, step: int
) -> None:
    key = row_key("op", "forward", path, name, occurrence)
    selection = Selection([f"{step}:{key}"], lambda: step)
    assert selection.wants("op", "forward", path, name, occurrence)
    assert not selection.wants("op", "forward", path, name, occurrence + 1)
    assert not Selection([f"{step + 1}:{key}"], lambda: step).wants("op", "forward", path, name, occurrence)
    assert selection.unmet() == []
