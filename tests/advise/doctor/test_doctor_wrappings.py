"""A traceback is found whatever launchers, containers, loggers and terminals put around its lines."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from jumar.advise.doctor import diagnose_logs
from jumar.advise.doctor.logs.wrappings import unwrapped

TRACEBACK = [
    "Traceback (most recent call last):",
    '  File "/home/me/train.py", line 41, in <module>',
    "    main()",
    '  File "/home/me/train.py", line 12, in main',
    "    cfg['lr']",
    "KeyError: 'lr'",
]
BAR = " 30%|###       | 3/10 [00:01<00:02,  3.2it/s]"


def seconds(number: int) -> str:
    return f"2025-01-02T03:04:{number:02d}.1234567{number:02d}Z"


EACH_LINE: dict[str, Callable[[int, str], str]] = {
    "torchrun": lambda _, line: f"[rank1]: {line}",
    "ray": lambda _, line: f"\x1b[36m(train_fn pid=4711, ip=10.0.0.3)\x1b[0m {line}",
    "docker-compose": lambda _, line: f"trainer-1  | {line}",
    "docker-compose-of-torchrun": lambda _, line: f"trainer-1  | [rank0]: {line}",
    "docker-json": lambda n, line: json.dumps({"log": f"{line}\n", "stream": "stderr", "time": seconds(n)}),
    "kubernetes": lambda n, line: f"{seconds(n)} stderr F {line}",
    "kubectl": lambda _, line: f"[pod/train-0/worker] {line}",
    "colours": lambda _, line: f"\x1b[31m{line}\x1b[0m",
    "logger": lambda n, line: f"2025-01-02 03:04:{n:02d},123 ERROR trainer {line}",
    "srun": lambda _, line: f"3: {line}",
    "engine": lambda _, line: f"(EngineCore_0 pid=1234) {line}",
    "journal": lambda n, line: f"Jan 02 03:04:{n:02d} node7 python[4711]: {line}",
    "json-lines": lambda n, line: json.dumps({"ts": n, "level": "info", "message": line}),
    "exception-group": lambda _, line: f"    | {line}",
}
WHOLE = {
    "tqdm-before-the-head": BAR + "\n".join(TRACEBACK),
    "tqdm-without-line-ends": "\r".join([BAR, BAR, *TRACEBACK]),
    "logger-before-the-head": "2025-01-02 03:04:05,123 ERROR: " + "\n".join(TRACEBACK),
    "json-field": json.dumps({"level": "info", "exc_info": "\n".join(TRACEBACK)}),
    "json-list": json.dumps({"level": "info", "stack": TRACEBACK}),
    "json-in-json": json.dumps({"record": {"exception": {"text": "\n".join(TRACEBACK)}}}),
}


def found(log: Path) -> list[tuple[str, str]]:
    return [(item.finding.code, item.finding.message) for item in diagnose_logs([log]).incidents]


@pytest.mark.parametrize("kind", EACH_LINE)
def test_a_prefix_before_every_line_hides_no_traceback(kind: str, tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    wrapped = [EACH_LINE[kind](number, line) for number, line in enumerate(["step 1", *TRACEBACK, "goodbye"])]
    log.write_text("\n".join(wrapped) + "\n")
    assert found(log) == [("JM851", "KeyError: 'lr'.")]
    (incident,) = diagnose_logs([log]).incidents
    assert incident.lead.line == 7
    assert incident.finding.evidence["raised_at"] == "/home/me/train.py:12"


@pytest.mark.parametrize("kind", WHOLE)
def test_what_stands_before_the_head_only_hides_no_traceback(kind: str, tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    log.write_text(f"step 1\n{WHOLE[kind]}\ngoodbye\n", newline="")
    assert found(log) == [("JM851", "KeyError: 'lr'.")]


def test_tracebacks_of_two_writers_that_take_turns_are_two(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    other = [*TRACEBACK[:-1], "ValueError: no"]
    turns = zip(TRACEBACK, other, strict=True)
    log.write_text("".join(f"a-1  | {one}\nb-2  | {two}\n" for one, two in turns))
    incidents = diagnose_logs([log]).incidents
    assert [(one.lead.writer, one.finding.message) for one in incidents] == [
        ("a-1", "KeyError: 'lr'."),
        ("b-2", "ValueError: no."),
    ]


@pytest.mark.parametrize("encoding", ["utf-16", "utf-8-sig"])
def test_a_log_of_another_encoding_is_read(encoding: str, tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    log.write_text("\r\n".join(["step 1", *TRACEBACK, ""]), encoding, newline="")
    assert found(log) == [("JM851", "KeyError: 'lr'.")]


@pytest.mark.parametrize("prefix", ["", "trainer-1  | ", "[rank1]: "])
def test_a_traceback_that_is_cut_off_is_named(prefix: str, tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    log.write_text("step 1\n" + "".join(f"{prefix}{line}\n" for line in TRACEBACK[:-1]))
    assert [code for code, _ in found(log)] == ["JM853"]


def test_a_line_that_needs_no_unwrapping_stays_as_it_is() -> None:
    data = b"step 1 {'loss': 0.3}\r\nstep 2\r\n"
    assert unwrapped(data) == (data, None)


def test_of_a_json_line_the_texts_and_what_names_an_error_count() -> None:
    lines = [
        '{"level": "info", "msg": "step 1", "loss": 0.3}',
        'x {"level": "critical", "who": "w3"}',
        '{"error": null, "errors": [], "failed": false}',
        '{"error": "boom", "level": 50, "msg": "no pump"}',
        'ValueError: {"object": "error", "message": "first\\nsecond"}',
        '[rank1]: {"message": "first\\nsecond"}',
        '{"cut": ',
    ]
    said, indices = unwrapped("\n".join(lines).encode())
    assert list(zip(indices or [], said.decode().split("\n"), strict=True)) == [
        (0, "INFO step 1"),
        (1, "level: critical"),
        (3, "ERROR no pump"),
        (3, "error: boom"),
        (4, "ValueError: first"),
        (4, "second"),
        (4, "object: error"),
        (5, "[rank1]: first"),
        (5, "[rank1]: second"),
        (6, '{"cut": '),
    ]
