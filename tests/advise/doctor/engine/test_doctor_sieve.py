"""The sieve: every line that can hold an error is read, whatever its numbers, and each time."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jumar.advise.doctor.entries.store import built_in_errors
from jumar.advise.doctor.logs.engine.grams import Needles
from jumar.advise.doctor.logs.engine.sieve import Sieve, naughts
from jumar.advise.doctor.logs.words import names_error

ERRORS = """
RuntimeError: NPU out of memory. Tried to allocate 2.00 GiB
[rank3]: ValueError: bad value 17
[2024-11-28 11:59:30,645] [ERROR] [launch.py:325:sigkill_handler] ['python', 'x'] exits with return code = -9
E0512 09:10:11.123456 140 torch/distributed/elastic.py:826] failed (exitcode: -9) local_rank: 3 (pid: 77) of binary
[E102 03:04:05.123456 ProcessGroupHCCL.cpp:616] the watchdog stopped
(EngineCore_DP0 pid=71) ERROR 11-12 10:11:12 [core.py:68] EngineCore failed to start.
Segmentation fault (core dumped)
slurmstepd: error: Detected 1 oom_kill event in StepId=12.0. Some of the step tasks have been OOM Killed.
2025-01-02 03:04:05 ERROR loader - 3 samples gone
terminate called after throwing an instance of 'c10::Error'
{"level": "ERROR", "ts": "2024-11-28T10:00:00Z", "msg": "the loader stopped"}
{"log": "ValueError: \\u4e2d\\n", "stream": "stderr"}
\x1b[31mRuntime\x1b[1mError\x1b[0m: shape '[2, 3]' is invalid
 10%|#         | 1/10\rRuntimeError: 5 elements
""".strip("\n").split("\n")

TABLE = built_in_errors()
SIEVE = Sieve(TABLE)


def test_an_entry_is_found_in_its_example_as_without_the_sieve():
    every = TABLE.searcher_of(range(len(TABLE.needles)), codes=True, return_codes=True)
    lines = [line for signature in TABLE.signatures for line in signature.example.split("\n")]
    plans = [(line, SIEVE.plan(line)) for line in lines]
    found = {line: list(plan.searcher.search(line)) if plan else [] for line, plan in plans}
    assert found == {line: list(every.search(line)) for line in lines}


@given(st.sampled_from(ERRORS), st.lists(st.integers(0, 9), min_size=60, max_size=60))
def test_a_line_that_names_an_error_is_read_whatever_its_numbers(line, digits):
    numbers = iter(digits * 5)
    line = re.sub(r"(?<!\\u)(?<!\x1b\[)(?<!20)\d(?!\d\d-\d\d)", lambda _: str(next(numbers)), line)
    plan = SIEVE.plan(line)
    assert (plan is not None and plan.words) or not names_error(line)


@pytest.mark.parametrize("line", ERRORS)
def test_each_of_these_lines_is_read(line):
    plan = SIEVE.plan(line)
    assert plan is not None
    assert plan.words or plan.searcher


@pytest.mark.parametrize(
    "line",
    [
        "[INFO] RUNTIME(71,python):2024-11-28-10:00:00.003.746 [stream.cc:99]71 [71]Setup:stream setup, flags=0x1f.",
        "2024-11-28 10:00:00,123 - INFO - trainer.py:212 - step 7/100 loss 0.25 lr 1.0e-4 tokens/s 900",
        '{"log": "step 7 loss 0.25\\n", "stream": "stdout", "time": "2024-11-28T10:00:00.645Z"}',
        "",
    ],
)
def test_lines_of_a_healthy_run_are_not_read_one_by_one(line):
    assert SIEVE.plan(line) is None


def test_the_same_lines_give_the_same_plans_again():
    data = "\n".join(ERRORS * 3 + ["fine"] * 5).encode()
    sieve = Sieve(TABLE)
    first, again = sieve.find(data), sieve.find(data)
    assert [index for index, _ in first] == [index for index, _ in again] == list(range(3 * len(ERRORS)))
    assert [plan.searcher for _, plan in first] == [plan.searcher for _, plan in again]


def test_of_two_lines_that_differ_in_numbers_only_the_one_with_the_code_is_told():
    sieve = Sieve(TABLE)
    found = [
        [match.code for match in plan.searcher.search(line)]
        for line in ("call failed, error code is 123456", "call failed, error code is 507018")
        if (plan := sieve.plan(line)) is not None
    ]
    assert found[-1] == ["507018"]
    assert found[:-1] in ([], [[]], [["123456"]])


@given(
    st.lists(st.binary(min_size=1, max_size=8), min_size=1, max_size=30, unique=True),
    st.binary(max_size=300),
)
def test_needles_are_found_at_every_place_and_nowhere_else(texts, data):
    needles = Needles(texts)
    expected = {
        (at, number) for number, text in enumerate(texts) for at in range(len(data)) if data.startswith(text, at)
    }
    assert set(needles.find(data)) == expected


@given(st.integers(0, 10**9), st.integers(0, 10**9))
def test_numbers_are_told_apart_only_as_naught_or_not(left, right):
    assert (naughts(b"a %d b" % left) == naughts(b"a %d b" % right)) == ((left == 0) == (right == 0))
