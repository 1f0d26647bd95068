"""The logs of many ranks: one screen with the first cause, who follows, who is silent, whose clock is wrong."""

from __future__ import annotations

import io
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from jumar.advise.doctor import diagnose_logs
from jumar.advise.doctor.logs.lines.meetings import meeting_in
from jumar.advise.doctor.logs.ranks import ranges_text
from jumar.show.pages.doctor.logs import logs_page
from jumar.show.terminal.page import print_page

START = datetime(2024, 11, 28, 10, 0, 0)
OOM = "RuntimeError: NPU out of memory. Tried to allocate 2.00 GiB (NPU 5; 60.96 GiB total capacity)"
TIMEOUT = "EI0002: [PID: 4242] {time:%Y-%m-%d-%H:%M:%S}.645.648 The wait execution of the Notify register times out. "


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def write(folder: Path, rank: int, *lines: tuple[float, str], shift_s: float = 0) -> None:
    text = "".join(
        (
            line.format(time=at(second + shift_s))
            if "{time" in line
            else f"{at(second + shift_s):%Y-%m-%d %H:%M:%S},100 {line}"
        )
        + "\n"
        for second, line in lines
    )
    (folder / f"rank_{rank}.log").write_text(text)


def barrier(rank: int, number: int) -> str:
    return f"INFO - Rank {rank}: Completed store-based barrier for key:store_based_barrier_key:{number} with 8 nodes."


def job(folder: Path, num_ranks: int, shifts: dict[int, float] | None = None) -> None:
    """Rank 5 runs out of memory, rank 3 hangs, rank 6 has no log, the others wait for them."""
    for rank in range(num_ranks):
        shift = (shifts or {}).get(rank, 0)
        start = [(0.0, barrier(rank, 1)), (1.0, barrier(rank, 2))]
        if rank == 5:
            write(folder, rank, *start, (100, OOM), shift_s=shift)
        elif rank == 3:
            write(folder, rank, *start, (80, "INFO loading batch 7"), shift_s=shift)
        elif rank != 6:
            write(folder, rank, *start, (220, TIMEOUT), shift_s=shift)


def page_of(folder: Path) -> str:
    out = io.StringIO()
    print_page(logs_page(diagnose_logs([folder])), console=Console(file=out, width=140))
    return out.getvalue()


def test_the_summary_names_cause_followers_silent_and_missing_ranks(tmp_path):
    job(tmp_path, 12)
    summary = diagnose_logs([tmp_path]).ranks
    assert summary is not None
    cause, timeout = summary.groups
    assert (cause.ranks, cause.first.lead.line) == ((5,), 3)
    assert (ranges_text(timeout.ranks), timeout.first.role) == ("0-2,4,7-11", "consequence")
    assert [(one.rank, one.last_line[-20:]) for one in summary.silent] == [(3, "INFO loading batch 7")]
    assert summary.missing == (6,)


def test_the_page_is_one_screen_for_a_thousand_ranks(tmp_path):
    job(tmp_path, 1024)
    text = page_of(tmp_path)
    assert len(text.splitlines()) < 45
    for said in ("rank 5", "0-2,4,7-1023", "Rank 3:", "loading batch 7", "Rank 6 has no log"):
        assert said in text


def test_a_few_ranks_need_no_summary(tmp_path):
    job(tmp_path, 3)
    assert diagnose_logs([tmp_path]).ranks is None


def test_a_clock_that_goes_before_is_told_and_does_not_change_the_order(tmp_path):
    job(tmp_path, 12, shifts={5: 300})
    diagnosis = diagnose_logs([tmp_path])
    assert diagnosis.first is not None
    assert diagnosis.first.finding.where.rank == 5
    assert any("rank_5.log) is about 300 seconds before the others'" in note for note in diagnosis.notes)


def test_a_clock_with_one_moment_only_is_told_as_not_sure(tmp_path):
    job(tmp_path, 12, shifts={5: 300})
    path = tmp_path / "rank_5.log"
    path.write_text("".join(line for line in path.read_text().splitlines(keepends=True) if "key:2" not in line))
    diagnosis = diagnose_logs([tmp_path])
    assert any("That is not sure" in note for note in diagnosis.notes)
    assert diagnosis.first is not None
    assert diagnosis.first.role == "consequence"
    assert any("is printed 179 s later" in note for note in diagnosis.notes)


def test_clocks_that_agree_are_not_accused(tmp_path):
    job(tmp_path, 12, shifts={5: 0.9, 7: -0.9})
    assert not any("clock of 1 log" in note for note in diagnose_logs([tmp_path]).notes)


@pytest.mark.parametrize(
    ("line", "meeting"),
    [
        (barrier(3, 2), "store_based_barrier_key:2 8"),
        ("node: [0] NCCL INFO ncclCommInitRank comm 0x1 rank 0 nranks 8 commId 0xab - Init COMPLETE", "8 0xab"),
        ("Added key: store_based_barrier_key:1 to store for rank: 3", None),
    ],
)
def test_only_lines_of_one_moment_are_meetings(line, meeting):
    assert meeting_in(line) == meeting


@given(st.sets(st.integers(0, 60)))
def test_ranges_say_every_number_and_no_other(numbers):
    said = set()
    for part in filter(None, ranges_text(numbers).split(",")):
        first, _, last = part.partition("-")
        said |= set(range(int(first), int(last or first) + 1))
    assert said == numbers
