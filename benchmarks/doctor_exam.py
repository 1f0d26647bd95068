"""How often `jumar doctor` names the right first cause: logs with answers that you give.

    python benchmarks/doctor_exam.py --folder DIR [--wrapped] [--list] [--json FILE]

The folder holds logs (`NAME.log`) and for each that tells a failure its answer (`NAME.json`):

    {"source": "where the log is from", "cause": "…", "remedy": "…",
     "accept": ["regex", …], "generic": ["regex", …], "reject": ["regex", …]}

`accept` is searched in the first finding's message, cause and action; one that fits makes the answer right. `generic`
is searched in the message and the log's line: the right line, without a remedy. `reject` names wrong answers: one that
fits makes the answer neither. Case does not count, and a dot fits a line end. A log without an answer is a clean one:
it must give no error.

The classes are: right, generic, wrapper (what only passes an error on, or a consequence, leads), wrong, and fine (no
error and no warning in a failed run); of clean logs quiet, warned and alarm. `--wrapped` tells as well in how many logs
the first finding stays the same within prefixes of launchers, containers and loggers, packed, doubled or with other
line ends. Nothing of a log is written to the figures.
"""

from __future__ import annotations

import argparse
import gzip
import json
import platform
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from jumar.advise.doctor import diagnose_logs
from jumar.advise.doctor.entries import known_errors
from jumar.advise.doctor.logs import Incident
from jumar.base.findings import Severity

CLASSES = ("right", "generic", "wrapper", "wrong", "fine")
CLEAN_CLASSES = ("quiet", "warned", "alarm")
NO_ACTION = "Read the lines around it."
"""The action of an error that no entry names: at best the right line."""
INFO = "INFO 05-01 10:00:00 [loggers.py:122] Engine 000: Avg prompt throughput: 1.0 tokens/s"
"""What stands around a failure in a long log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """How one log was answered."""

    name: str
    kind: str
    said: str
    """The first finding's message; empty without one."""


def incident_of(log: Path) -> Incident | None:
    """Return the first error, or else the first warning."""
    diagnosis = diagnose_logs([log])
    warned = (one for one in diagnosis.incidents if one.severity >= Severity.WARNING)
    return diagnosis.first or next(warned, None)


def fits(patterns: Sequence[str], text: str) -> bool:
    """Tell whether one of the expressions is in the text."""
    return any(re.search(pattern, text, re.IGNORECASE | re.DOTALL) for pattern in patterns)


def class_of(first: Incident | None, answer: Mapping[str, Any]) -> str:
    """Return the class of a failure's answer."""
    if first is None:
        return "fine"
    finding = first.finding
    told = "\n".join((finding.message, finding.why, finding.action))
    if not fits(answer.get("reject", ()), told):
        if fits(answer["accept"], told):
            is_bare = first.lead.is_word_only and finding.action == NO_ACTION
            return "generic" if is_bare else "right"
        if fits(answer.get("generic", ()), f"{finding.message}\n{first.lead.text}"):
            return "generic"
    return "wrapper" if first.role in ("wrapper", "consequence") else "wrong"


def answer_of(log: Path) -> Answer:
    """Diagnose one log and judge what was said."""
    first = incident_of(log)
    said = first.finding.message if first is not None else ""
    key = log.with_suffix(".json")
    if key.exists():
        return Answer(name=log.stem, kind=class_of(first, json.loads(key.read_text())), said=said)
    kind = "quiet" if first is None else "alarm" if first.severity is Severity.ERROR else "warned"
    return Answer(name=log.stem, kind=kind, said=said)


def time_at(index: int) -> str:
    """Return a time of a container's log."""
    return f"2026-05-01T10:{index // 60 % 60:02}:{index % 60:02}.123456789Z"


def interleaved(lines: Sequence[str]) -> Iterator[str]:
    """Yield the lines of one rank with those of another between."""
    for index, line in enumerate(lines):
        yield f"[rank0]: {line}"
        if index % 2:
            yield f"[rank1]: {INFO}"


def before_each(prefix: str) -> Callable[[Sequence[str]], Iterator[str]]:
    """Return what puts a prefix before each line; `TIME` in it becomes a time."""
    return lambda lines: (f"{prefix.replace('TIME', time_at(index))}{line}" for index, line in enumerate(lines))


WRAPPINGS: dict[str, Callable[[Sequence[str]], Iterator[str]]] = {
    "Ray": before_each("(train pid=4711, ip=10.0.0.3) "),
    "Ray, colours": before_each("\x1b[36m(WorkerDict pid=4711)\x1b[0m "),
    "torchrun": before_each("[default0]:"),
    "Kubernetes": before_each("TIME stderr F "),
    "docker compose": before_each("worker-1  | "),
    "Slurm": before_each("12: "),
    "vLLM": before_each("(EngineCore_DP0 pid=55) ERROR 05-01 10:00:00 [core.py:842] "),
    "JSON of docker": lambda lines: (
        json.dumps({"log": f"{line}\n", "stream": "stderr", "time": time_at(index)}) for index, line in enumerate(lines)
    ),
    "JSON of a logger": lambda lines: (
        json.dumps({"ts": time_at(index), "level": "info", "msg": line}) for index, line in enumerate(lines)
    ),
    "two ranks": interleaved,
    "progress bar": lambda lines: (
        f"\r {index}%|█   | {index}/100 [00:01<00:09]\r{x}" for index, x in enumerate(lines)
    ),
    "CRLF": lambda lines: (f"{line}\r" for line in lines),
    "doubled": lambda lines: (line for line in lines for _ in range(2)),
    "in a long log": lambda lines: iter([*[INFO] * 500, *lines, *[INFO] * 500]),
}


def first_said(log: Path) -> tuple[str, bool]:
    """Return what leads: the entry's name, or that nothing known does."""
    first = incident_of(log)
    signature = first.lead.signature if first is not None else None
    return (signature.name if signature is not None else "", first is not None)


def same_within(logs: Sequence[Path]) -> dict[str, int]:
    """Return for each wrapping in how many logs the same leads."""
    kept: Counter[str] = Counter(dict.fromkeys([*WRAPPINGS, "UTF-16", "gzip"], 0))
    with tempfile.TemporaryDirectory() as folder:
        plain, packed = Path(folder) / "x.log", Path(folder) / "x.log.gz"
        for log in logs:
            said, data = first_said(log), log.read_bytes()
            text = data.decode("utf-8", "replace")
            for name, wrap in WRAPPINGS.items():
                plain.write_text("\n".join(wrap(text.removesuffix("\n").split("\n"))) + "\n", newline="")
                kept[name] += first_said(plain) == said
            plain.write_bytes(text.encode("utf-16"))
            kept["UTF-16"] += first_said(plain) == said
            packed.write_bytes(gzip.compress(data))
            kept["gzip"] += first_said(packed) == said
    return dict(kept)


def figures(answers: Sequence[Answer]) -> dict[str, Any]:
    """Return the counts of the classes."""
    kinds = Counter(answer.kind for answer in answers)
    failures = {kind: kinds[kind] for kind in CLASSES}
    return {
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
        "jumar": version("jumar"),
        "python": platform.python_version(),
        "entries": len(known_errors().signatures),
        "failures": {"logs": sum(failures.values()), **failures},
        "clean": {"logs": sum(kinds[kind] for kind in CLEAN_CLASSES), **{kind: kinds[kind] for kind in CLEAN_CLASSES}},
    }


def main() -> None:
    """Answer all logs of the folder and print the counts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, required=True, help="logs and their answers")
    parser.add_argument("--wrapped", action="store_true", help="also within prefixes, packed and doubled")
    parser.add_argument("--list", action="store_true", help="print the answers that are not right")
    parser.add_argument("--json", type=Path, help="write the counts here")
    options = parser.parse_args()
    logs = sorted(options.folder.glob("*.log"))
    if not logs:
        sys.exit(f"No *.log in {options.folder}. Put logs there, and their answers as NAME.json (see --help).")
    answers = [answer_of(log) for log in logs]
    counts = figures(answers)
    if options.wrapped:
        failed = [log for log in logs if log.with_suffix(".json").exists()]
        counts["the same within"] = {"logs": len(failed), **same_within(failed)}
    for name, value in counts.items():
        print(f"{name:16} {value if not isinstance(value, dict) else '  '.join(f'{k} {v}' for k, v in value.items())}")
    if options.list:
        for answer in answers:
            if answer.kind not in ("right", "quiet"):
                print(f"{answer.kind:8} {answer.name}: {answer.said or '(nothing)'}")
    if options.json:
        options.json.write_text(json.dumps(counts, indent=1) + "\n")


if __name__ == "__main__":
    main()
