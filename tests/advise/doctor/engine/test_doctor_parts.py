"""Blocks and parts: wherever a log is cut, for reading or for several processes, its report is the same."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jumar.advise.doctor.entries.store import built_in_errors
from jumar.advise.doctor.logs import tracebacks
from jumar.advise.doctor.logs.engine import blocks as blocks_module
from jumar.advise.doctor.logs.engine import cuts, spread
from jumar.advise.doctor.logs.engine.blocks import AROUND_LINES, blocks
from jumar.advise.doctor.logs.engine.cuts import parts_of
from jumar.advise.doctor.logs.engine.folders import LogFile
from jumar.advise.doctor.logs.engine.hits import FileReport
from jumar.advise.doctor.logs.engine.parts import report_of

TRACEBACK = """Traceback (most recent call last):
  File "train.py", line 20, in main
    run(cfg["lr"])
KeyError: 'lr'
"""
FRAGMENTS = [
    TRACEBACK,
    "".join(f"[rank1]: {line}\n" for line in TRACEBACK.replace("'lr'", "'wd'").splitlines()),
    "".join(f"(train pid=7) {line}\n" for line in TRACEBACK.replace("Key", "Index").splitlines()[:3]),
    TRACEBACK + "\nDuring handling of the above exception, another exception occurred:\n\n" + TRACEBACK,
    "[ERROR] GE(12,python3):2021-02-02-22:23:56.475.679 [x.cc:1]12 Strange: failed\n",
    "EZ9999: [PID: 77] 2024-11-28-11:59:30.645.648 inner error\n        TraceBack (most recent call last):\n",
    "RuntimeError: call failed, error code is 507018\n",
    "Segmentation fault (core dumped)\n",
    "worker 7 failed\n",
    "worker 8 failed\n",
    "2024-11-28 11:59:31,100 INFO step 1\n",
    "2024-11-28 12:59:31,100 INFO step 2\n",
    "no time here\n" * 3,
    "quiet\n" * 30,
    "\n",
    "x" * 700 + " error: long line\n",
    '{"log": "KeyError: 7\\n", "stream": "stderr"}\n',
    " 1%| |\r 2%| |\rRuntimeError: bar\n",
]
TABLE = built_in_errors()
LOGS = st.lists(st.sampled_from(FRAGMENTS), min_size=1, max_size=40).map("".join)


@contextmanager
def small() -> Iterator[None]:
    """Make tracebacks and the look above a cut short, so that small logs can be cut."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tracebacks, "LONGEST_LINES", 8)
        patch.setattr(cuts, "LONGEST_LINES", 8)
        patch.setattr(cuts, "_WINDOW_BYTES", 900)
        patch.setattr(cuts, "_ABOVE_BYTES", 900)
        yield


def scanned(path: Path, *, block_bytes: int = 2**20) -> FileReport:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blocks_module, "BLOCK_BYTES", block_bytes)
        (report,) = spread.scan_item(TABLE, LogFile(path=path))
    return report


@given(log=LOGS, size=st.integers(2500, 6000), open_end=st.booleans())
def test_where_blocks_end_does_not_matter(tmp_path_factory, log, size, open_end):
    path = tmp_path_factory.mktemp("cut") / "rank_3.log"
    path.write_text(log[: -1 if open_end else None])
    assert scanned(path, block_bytes=size) == scanned(path)


@given(log=LOGS, size=st.integers(200, 3000))
def test_parts_put_together_are_the_report_of_the_whole(tmp_path_factory, log, size):
    path = tmp_path_factory.mktemp("parts") / "a.log"
    path.write_text(log * 3)
    with small():
        parts = parts_of(path, path.stat().st_size, size)
        assert [part.start for part in parts[1:]] == [part.stop for part in parts[:-1]]
        assert report_of([spread.scan_item(TABLE, part) for part in parts]) == scanned(path)


@pytest.mark.parametrize("at", range(1500, 2100, 50))
def test_a_log_is_not_cut_inside_a_traceback(tmp_path, at):
    (tmp_path / "a.log").write_text("quiet\n" * 300 + TRACEBACK + "quiet\n" * 300)
    with small():
        first, second, *_ = parts_of(tmp_path / "a.log", (tmp_path / "a.log").stat().st_size, at)
    assert first.start == 0
    assert at <= second.start
    assert not 1800 < second.start < 1800 + len(TRACEBACK)


def test_processes_side_by_side_give_the_report_of_one(tmp_path, monkeypatch):
    text = "".join(FRAGMENTS) + "quiet 1\n" * 3000 + "".join(reversed(FRAGMENTS)) + "quiet 2\n" * 3000
    (tmp_path / "a.log").write_text(text)
    (tmp_path / "b.log").write_text(text[5000:])
    files = [LogFile(path=path, size_bytes=path.stat().st_size) for path in sorted(tmp_path.iterdir())]
    alone = spread.scan_files(files, TABLE)
    monkeypatch.setattr(spread, "LEAST_BYTES", 0)
    monkeypatch.setattr(spread, "usable_cores", lambda: 2)
    sizes: list[int] = []
    assert spread.scan_files(files, TABLE, sizes.append) == alone
    assert sum(sizes) == sum(file.size_bytes for file in files)


@given(st.lists(st.integers(0, 400), max_size=60), st.integers(1, 700), st.integers(20, 300))
def test_blocks_are_the_stream_and_number_its_lines(lengths, size, longest):
    data = b"\n".join(b"%d" % index + b"x" * length for index, length in enumerate(lengths))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blocks_module, "BLOCK_BYTES", size)
        patch.setattr(blocks_module, "LONGEST_LINE_BYTES", longest)
        found = list(blocks(io.BytesIO(data)))
    assert b"".join(block.data for block in found) == data
    assert [block.first_line for block in found] == [
        1 + sum(block.data.count(b"\n") for block in found[:index]) for index in range(len(found))
    ]
    for index, block in enumerate(found):
        assert max(map(len, block.data.split(b"\n"))) <= longest
        before, after = (b"".join(one.data for one in part) for part in (found[:index], found[index + 1 :]))
        assert before.endswith(block.before)
        assert after.startswith(block.after)
        assert block.before.count(b"\n") <= AROUND_LINES


def test_a_line_without_end_is_cut_and_memory_stays_bounded():
    sizes = [len(block.data) for block in blocks(io.BytesIO(b"\r".join([b"progress 100%"] * 1_000_000)))]
    assert sum(sizes) == 14 * 10**6 - 1
    assert max(sizes) == blocks_module.LONGEST_LINE_BYTES
