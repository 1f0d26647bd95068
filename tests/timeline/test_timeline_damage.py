"""Damaged traces: what can be read is read, what cannot is counted."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kineto_files import event, text, write

from jumar.base.errors import InputError
from jumar.timeline.chrome import decode, files
from jumar.timeline.reading import find_sources, read_timeline
from jumar.timeline.totals import totals

READERS = ["fast", "slow"]


@pytest.fixture(params=READERS, autouse=True)
def reader(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Read with msgspec where it is installed, and without."""
    if request.param == "slow":
        monkeypatch.setattr(decode, "fast_events", lambda fields: None)
    else:
        pytest.importorskip("msgspec")
    return str(request.param)


def names(path: Path) -> list[str]:
    timeline = read_timeline(path)
    return [timeline.name_of(index) for index in range(len(timeline.events))]


def lost(path: Path) -> list[str]:
    sentences = list(read_timeline(path).lost)
    assert list(totals(path).lost) == sentences
    return sentences


def events(number: int) -> list[dict[str, Any]]:
    return [event(f"op{index}", index * 2.0, 1.0) for index in range(number)]


@pytest.mark.parametrize("indent", [None, 2])
def test_a_file_cut_in_the_middle_keeps_what_is_before(tmp_path: Path, indent: int | None) -> None:
    whole = text(events(50), indent).encode()
    path = tmp_path / "t.json"
    cut = whole.index(b'"op30"') + 3
    path.write_bytes(whole[:cut])
    assert names(path) == [f"op{index}" for index in range(30)]
    begin = whole.rindex(b"{", 0, cut)
    assert lost(path) == [f"the last {cut - begin} bytes hold no whole event: the file is cut there, or damaged"]


def test_a_file_cut_between_two_events_says_so(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    path.write_text(
        text(events(5)).partition(',\n    {\n      "ph": "X",\n      "cat": "cpu_op",\n      "name": "op3"')[0]
    )
    assert names(path) == ["op0", "op1", "op2"]
    assert lost(path) == ["the file ends before its list of events does"]


def test_a_broken_packed_tail_keeps_what_is_before(tmp_path: Path) -> None:
    packed = gzip.compress(text(events(1500), None).encode())
    path = tmp_path / "t.json.gz"
    path.write_bytes(packed[: len(packed) // 2])
    found = names(path)
    assert 300 < len(found) < 1500
    assert found == [f"op{index}" for index in range(len(found))]
    assert "the packed file (gzip) ends before its own end mark" in lost(path)[0]
    path.write_bytes(packed[: len(packed) // 2] + bytes(200) + packed[len(packed) // 2 + 200 :])
    assert "is damaged after" in lost(path)[0]
    path.write_bytes(packed + bytes(512))
    assert (len(names(path)), lost(path)) == (1500, [])


@pytest.mark.parametrize("wrong", [b"a\nb\x01c", b"caf\xe9 \xff", b"back\\u0000slash", "日本".encode()])
def test_names_with_raw_control_characters_and_other_encodings_are_read(tmp_path: Path, wrong: bytes) -> None:
    path = tmp_path / "t.json"
    path.write_bytes(text(events(20)).encode().replace(b'"op7"', b'"' + wrong + b'"'))
    found = names(path)
    assert found[7] == json.loads('"' + wrong.decode("utf-8", "replace") + '"', strict=False)
    assert found[:7] + found[8:] == [f"op{index}" for index in range(20) if index != 7]
    assert lost(path) == []


@pytest.mark.parametrize(
    ("wrong", "missing"),
    [
        (b'"name": "op7", "x": {"y": [1}', ["op7"]),
        (b'"name": "op"7"', ["op7"]),
        (b'"name": "op7', ["op7"]),
        (b'"name": op7', ["op7"]),
        (b'"name": "op7"}', ["op7"]),
    ],
)
def test_an_event_that_is_no_json_is_passed_over_and_counted(tmp_path: Path, wrong: bytes, missing: list[str]) -> None:
    path = tmp_path / "t.json"
    path.write_bytes(text(events(40)).encode().replace(b'"name": "op7"', wrong))
    assert [name for name in (f"op{index}" for index in range(40)) if name not in names(path)] == missing
    sentences = [sentence for sentence in lost(path) if "among the events are no JSON" in sentence]
    assert len(sentences) == 1
    assert 50 < int(sentences[0].split()[0]) < 700


def test_times_that_are_no_numbers_and_negative_lengths(tmp_path: Path) -> None:
    wrong: list[tuple[Any, Any]] = [
        (float("nan"), 1), (1, float("inf")), ("x", 1), (None, 1), (3, None), (3, -2.5), (4, 0), (1e300, 1), ("5", "1"),
    ]  # fmt: skip
    path = write(tmp_path / "t.json", [event(f"op{index}", ts, dur) for index, (ts, dur) in enumerate(wrong)])
    timeline = read_timeline(path)
    assert names(path) == ["op5", "op6", "op8"]
    assert (timeline.events.start_ns.tolist(), timeline.events.duration_ns.tolist()) == ([0, 1000, 2000], [0, 0, 1000])
    assert lost(path) == [
        "6 events have no begin or no length that is a number, and were passed over",
        "1 events have a negative length, which counts as 0",
    ]


def test_events_out_of_order_and_keys_twice(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    content = text(list(reversed(events(30)))).replace('"name": "op3"', '"name": "zz", "name": "op3"')
    path.write_text(content)
    assert names(path) == [f"op{index}" for index in range(30)]


def test_other_values_among_the_events_do_no_harm(tmp_path: Path) -> None:
    odd: list[Any] = [{"ph": "X", "name": 5, "cat": None, "pid": [1], "tid": {}, "ts": 1, "dur": 1, "args": [1]}, {}, 3]
    path = tmp_path / "t.json"
    path.write_text(text([*events(3), *odd]))
    assert set(names(path)) >= {"op0", "op1", "op2"}


def test_fields_after_the_events_count_too(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    path.write_text(json.dumps({"traceEvents": events(3), "baseTimeNanoseconds": 1790857026000000000, "with_stack": 1}))
    timeline = read_timeline(path)
    assert (timeline.origin_ns, timeline.facts["with_stack"]) == (1790857026000000000, "1")


def test_nothing_left_is_an_error(tmp_path: Path) -> None:
    path = write(tmp_path / "t.json", [])
    for read in (read_timeline, totals):
        with pytest.raises(InputError, match="has no events with a begin and a length"):
            read(path)
    path.write_text('{"a": [1, 2], "traceEvents": 3}')
    with pytest.raises(InputError, match="holds no trace"):
        find_sources(path)


NAMES = st.text(st.sampled_from('ab"\\{}[],:\n\té日\x01'), max_size=12)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=60)
@given(
    st.lists(NAMES, min_size=1, max_size=30), st.sampled_from([None, 0, 2]), st.integers(20, 700), st.booleans(),
    st.floats(0, 1.2),
)  # fmt: skip
def test_any_block_size_and_any_cut_keeps_all_whole_events(
    tmp_path: Path, labels: list[str], indent: int | None, block: int, raw: bool, cut: float
) -> None:
    inner = [{"a": [{"ph": "X"}, {"ph": "Y"}]}]
    content = text([event(name, index, 0.5, nested=inner) for index, name in enumerate(labels)], indent)
    content = content.replace("\\n", "\n").replace("\\u0001", "\x01") if raw and "\\\\" not in content else content
    data = content.encode()
    before = data[: int(len(data) * cut)]
    path = tmp_path / "t.json"
    path.write_bytes(before)
    whole = before.count(b'"dur": 0.5')
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(files, "BLOCK", block)
        try:
            found = names(path)
        except InputError:
            found = []
    assert found == labels[: len(found)]
    assert len(found) in {whole, whole - 1}
    if cut >= 1:
        assert len(found) == len(labels)
