from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jumar.recording.history.frames import frame
from jumar.recording.history.model import NUM_VALUES, ROLES, HistoryStep, Place
from jumar.recording.history.reader import SPARE_NAMES, History
from jumar.recording.history.writer import HistoryWriter
from jumar.recording.schema import history_file

NAMES = st.text(max_size=12)
PLACES = st.builds(
    Place,
    role=st.sampled_from(ROLES),
    owner=NAMES,
    name=NAMES,
    slot=NAMES,
    shape=st.lists(st.integers(0, 1 << 40), max_size=4).map(tuple),
    order=NAMES,
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda item: st.lists(item, max_size=3),
    max_leaves=4,
)
NUMBERS = st.floats(width=32)


@st.composite
def steps_of(draw: st.DrawFn) -> list[HistoryStep]:
    layouts = draw(st.lists(st.lists(PLACES, max_size=4, unique=True).map(tuple), min_size=1, max_size=3))
    found = []
    for step in draw(st.lists(st.integers(0, 1000), max_size=6, unique=True).map(sorted)):
        places = draw(st.sampled_from(layouts))
        values = draw(st.lists(NUMBERS, min_size=NUM_VALUES * len(places), max_size=NUM_VALUES * len(places)))
        owners = draw(st.dictionaries(NAMES, st.dictionaries(NAMES, VALUES, max_size=2), max_size=2))
        found.append(
            HistoryStep(
                step=step,
                settings=owners,
                calls=draw(st.dictionaries(NAMES, st.integers(0, 9), max_size=2)),
                rng=draw(st.dictionaries(st.sampled_from(["cpu", "python"]), NAMES, max_size=2)),
                places=places,
                values=np.array(values, np.float32).reshape(-1, NUM_VALUES),
            )
        )
    return found


def write(folder: Path, steps: list[HistoryStep]) -> Path:
    writer = HistoryWriter(folder, 0)
    for step in steps:
        writer.write(step)
    writer.close()
    assert (folder / history_file(0)).stat().st_size == writer.num_bytes
    return folder / history_file(0)


@settings(derandomize=True, max_examples=20, deadline=None)
@given(steps=steps_of())
def test_what_is_written_is_read(steps: list[HistoryStep], tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("history")
    write(folder, steps)
    history = History.open(folder)
    assert history is not None
    assert (history.steps, history.warning) == ([step.step for step in steps], "")
    known: dict[str, dict[str, object]] = {}
    for given_step, found in zip(steps, history, strict=True):
        for owner, values in given_step.settings.items():
            known.setdefault(owner, {}).update(values)
        assert {owner: values for owner, values in found.settings.items() if values} == {
            owner: values for owner, values in known.items() if values
        }
        assert (found.places, found.calls) == (given_step.places, given_step.calls)
        np.testing.assert_array_equal(found.values, given_step.values)


def sample(num_steps: int = 4) -> list[HistoryStep]:
    places = (Place("loss", "", "0"), Place("gradient", "SGD", "fc.weight", "", (4, 3)))
    return [
        HistoryStep(
            step=step,
            settings={"SGD": {"lr": [0.1 / (1 + step)]}},
            calls={"SGD": 1},
            rng={"cpu": f"{step:016x}"},
            places=places,
            values=np.full((2, NUM_VALUES), step, np.float32),
        )
        for step in range(num_steps)
    ]


def test_a_file_that_is_cut_anywhere_keeps_the_steps_before_the_cut(tmp_path: Path) -> None:
    whole = write(tmp_path, sample()).read_bytes()
    lengths = []
    for cut in (*range(0, len(whole), 23), len(whole) - 1):
        (tmp_path / history_file(0)).write_bytes(whole[:cut])
        history = History.open(tmp_path)
        assert history is not None
        assert history.steps == list(range(len(history.steps)))
        assert [step.losses for step in history] == [[float(step)] for step in history.steps]
        lengths.append(len(history.steps))
    assert lengths == sorted(lengths)
    assert lengths[-1] == 3


@settings(derandomize=True, max_examples=25, deadline=None)
@given(data=st.data())
def test_a_file_with_other_bytes_is_never_misread(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("history")
    path = write(folder, sample())
    content = bytearray(path.read_bytes())
    place = data.draw(st.integers(0, len(content) - 1))
    content[place] ^= data.draw(st.integers(1, 255))
    path.write_bytes(content)
    history = History.open(folder)
    assert history is not None
    assert "damaged" in history.warning
    assert [step.losses for step in history] == [[float(step)] for step in history.steps]


@pytest.mark.parametrize(
    "header",
    [
        {},
        {"kind": "step"},
        {"kind": "step", "step": 0, "of": 0, "calls": {}},
        {"kind": "step", "step": 0, "of": [], "calls": {}},
        {"kind": "step", "step": math.inf, "of": 0, "calls": {}},
        {"kind": "places", "number": 0, "places": 3},
        {"kind": "places", "number": 0, "places": [["loss"]]},
        {"kind": "places", "number": 0, "places": [["password", "", "", "", [], ""]]},
        {"kind": "places", "number": 0, "places": [["loss", "", "", "", ["a"], ""]]},
    ],
)
def test_a_frame_that_no_writer_makes_is_damage(header: dict[str, object], tmp_path: Path) -> None:
    (tmp_path / history_file(0)).write_bytes(frame(header))
    history = History.open(tmp_path)
    assert history is not None
    assert history.steps == []
    assert "damaged and holds no step" in history.warning


@pytest.mark.parametrize("step", [-1, 1 << 70, True, "7", 1.5])
def test_a_step_without_a_possible_number_is_damage(step: object, tmp_path: Path) -> None:
    of_places = frame({"kind": "places", "number": 0, "places": []})
    (tmp_path / history_file(0)).write_bytes(of_places + frame({"kind": "step", "step": step, "of": 0, "calls": {}}))
    history = History.open(tmp_path)
    assert history is not None
    assert history.steps == []
    assert "damaged" in history.warning


@pytest.mark.slow
@pytest.mark.parametrize(
    "changed",
    [
        lambda step: {"settings": {f"owner {step}": {"lr": 1}}},
        lambda step: {"settings": {"SGD": {f"name {step}": 1}}},
        lambda step: {"rng": {f"generator {step}": "0"}},
    ],
)
def test_names_that_every_step_adds_do_not_fill_the_memory(
    changed: Callable[[int], dict[str, object]], tmp_path: Path
) -> None:
    """Each step has the names of all before it: as objects they would take a thousand times the file."""
    content = frame({"kind": "places", "number": 0, "places": []})
    for step in range(3000):
        content += frame({"kind": "step", "step": step, "of": 0, "calls": {}, **changed(step)})
    (tmp_path / history_file(0)).write_bytes(content)
    history = History.open(tmp_path)
    assert history is not None
    assert "damaged after step" in history.warning
    assert sum(len(step.rng) + len(step.settings) for step in history) < SPARE_NAMES + len(content)


@pytest.mark.slow
def test_settings_of_many_optimizers_that_change_in_each_step_are_read(tmp_path: Path) -> None:
    """One optimizer a parameter, each with a schedule: as many names as a real run has."""
    places = tuple(Place("gradient", f"Adam {owner}") for owner in range(100))
    values = np.ones((len(places), NUM_VALUES), np.float32)
    writer = HistoryWriter(tmp_path, 0)
    for step in range(200):
        settings = {place.owner: {"lr": [0.1 / (step + 1)], **{name: [1] for name in "abcdefgh"}} for place in places}
        writer.write(HistoryStep(step=step, places=places, values=values, settings=settings))
    writer.close()
    history = History.open(tmp_path)
    assert history is not None
    assert history.warning == ""
    assert history.steps == list(range(200))


def test_values_that_do_not_fit_their_places_are_damage(tmp_path: Path) -> None:
    of_places = frame({"kind": "places", "number": 0, "places": [["loss", "", "0", "", [], ""]]})
    for values in (b"", bytes(12), bytes(20)):
        step = frame({"kind": "step", "step": 0, "of": 0, "calls": {}}, values)
        (tmp_path / history_file(0)).write_bytes(of_places + step)
        history = History.open(tmp_path)
        assert history is not None
        assert history.steps == []


def test_a_brief_step_keeps_losses_and_the_norm_of_all_gradients() -> None:
    places = (
        Place("loss", "", "0"),
        Place("gradient", "Adam", "a", "", (2,)),
        Place("gradient", "Adam", "b", "", (2,)),
        Place("parameter", "", "a", "", (2,)),
    )
    values = np.array([[1, 1, 1, 1], [3, 0, 0, 0], [4, 0, 0, 0], [9, 9, 9, 9]], np.float32)
    brief = HistoryStep(step=3, places=places, values=values, settings={"Adam": {"lr": [0.1]}}).brief()
    assert brief.places == (Place("loss", "", "0"), Place("gradient", "Adam"))
    assert brief.values[:, 0].tolist() == [1.0, 5.0]
    assert brief.settings == {"Adam": {"lr": [0.1]}}


def test_a_recording_without_a_history_has_none(tmp_path: Path) -> None:
    assert History.open(tmp_path) is None
