"""What launchers, containers, collectors and loggers put before a line: `peeled` takes it off.

Prefixes may be nested (`3: [rank3]: 2025-01-02 03:04:05 ERROR …`). The writer that they name is kept, and its rank.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

LEVELS = {
    "debug": ("TRACE", "DEBUG", "VERBOSE", "D"),
    "info": ("INFO", "NOTICE", "EVENT", "SUCCESS", "I"),
    "warning": ("WARN", "WARNING", "W"),
    "error": ("ERROR", "ERR", "SEVERE", "CRITICAL", "FATAL", "ALERT", "EMERG", "EMERGENCY", "PANIC", "E", "F", "C"),
}
"""Levels of loggers by what they mean; a letter is one only where the form says so."""
_MEANING = {name: level for level, names in LEVELS.items() for name in names}
_LEVEL = "(?P<level>" + "|".join(sorted((name for name in _MEANING if len(name) > 1), key=len, reverse=True)) + ")"
_ANY_LEVEL = f"(?i:{_LEVEL})"
_LETTER = "(?P<level>[DIWEFC])"
_TIME = (
    r"(?:(?:\d{4}|\d\d)[-/]\d\d[-/]\d\d(?:\d\d)?|\d\d[-/]\d\d)(?:[T ,]{1,2}|-|:)\d\d:\d\d:\d\d(?:[.,:]\d+){0,3}"
    r"(?: ?(?:Z|UTC|GMT|CST|[+-]\d\d:?\d\d)\b)?|\d\d:\d\d:\d\d(?:[.,]\d+)?|"
    r"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun),? (?:[A-Z][a-z]{2} +\d{1,2}|\d{1,2} [A-Z][a-z]{2}) (?:\d{4} )?\d\d:\d\d:\d\d"
    r"(?: [A-Z]{3,4})?(?: \d{4})?"
)
_PLACE = r"[\w./+-]{1,120}:\d+(?::[\w<>.]{1,80})?"
"""A file and a line of it, perhaps a function."""

_WRITERS = (
    r"\((?P<writer>(?:Vllm)?Worker[ _]TP(?P<rank>\d+) pid=\d+)\) ?",  # vLLM
    r"\((?P<writer>[^()\n]{0,80}(?:\([^()\n]{0,40}\)[^()\n]{0,40})?\bpid=\d+[^()\n]{0,80})\) ?",  # Ray, vLLM
    r"\((?P<writer>(?:raylet|gcs_server|autoscaler|dashboard|runtime_env)[^()\n]{0,60})\) ?",  # Ray
    r" {0,3}\[(?P<writer>(?:[a-z]+)?(?:[Rr]ank[ :]?|RANK[ :]?|default)(?P<rank>\d+))\](?:: ?| (?! )|(?=\S)|"
    r"$)",  # torchrun
    r"\[(?P<writer>[a-z][a-z_]*(?P<rank>\d+))\]:(?: |(?=\S)|$)",  # torchrun with a role
    r"(?P<writer>(?:[Rr]ank|RANK)[ _]?(?P<rank>\d+)) ?[:|>](?: |$)",
    r"\[\d+,(?P<writer>(?P<rank>\d+))\](?:<std(?:err|out|diag)>)?: ?",  # mpirun
    r" {0,5}(?P<writer>(?P<rank>\d{1,6})): ?(?=\D|$)",  # srun --label
    r"(?P<writer>[A-Za-z][\w.-]{0,80}[-_]\d+) +\| ?",  # docker compose
    r"\[(?P<writer>pod/[\w.-]+/[\w.-]+)\] ?",  # kubectl logs --prefix
    r"(?P<writer>[\w.-]{1,80} [\w./@-]{1,80}\[\d+\]): ",  # journald, syslog
)
_CLOCKS = (
    r" {2,16}\| | {2,16}\+ Exception Group (?=Traceback)",  # margin of an exception group
    rf"\[(?:{_TIME}) (?P<level>[DIWEFC]) \d+ \d+\] (?:\([\w -]{{1,40}}\) )?{_PLACE}: ?",  # Ray's own
    rf"(?:<\d{{1,3}}>)?\[?(?:{_TIME})\]?,?:?(?: std(?:err|out) [FP])?(?:[ \t]|$|(?=\[))",
    r"(?:<\d{1,3}>)?[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d (?:(?P<writer>[\w.-]{1,80} [\w./@-]{1,80}(?:\[\d+\])?): |"
    r"(?=\w))",
    r"\[ *\d{1,9}\.\d{6}\] ",  # dmesg
    rf"time=\"?(?:{_TIME})\"? ",
)
_LOGGERS = (
    rf"{_LEVEL} +\d\d-\d\d \d\d:\d\d:\d\d (?:\[{_PLACE}\]|{_PLACE}\])(?: |$)",  # vLLM
    r"(?P<writer>[\w.-]{1,80}:\d+:\d+) \[\d+\] (?:NCCL|RCCL|HCCL) (?:(?P<level>INFO|TRACE)|WARN) ",
    rf"\| ?{_LEVEL} *\| [\w.<>/-]{{1,120}}:[\w.<>]{{1,80}}:\d+ - ",  # loguru
    rf"\{{[\w.-]+:\d+\}} {_LEVEL} - ",  # Airflow
    rf"\[{_ANY_LEVEL}\|[^\]\n]{{1,120}}\](?: (?:{_TIME}) ?>>)?(?: |$)",  # Transformers
    rf"\[NeMo {_LETTER} [^\]\n]{{1,120}}\] ?",
    rf"{_LETTER}(?:20\d\d|1111)?\d{{4}} \d\d:\d\d:\d+(?:\.\d+)? +\d* ?{_PLACE}\](?: |$)",  # glog, torch.distributed
    rf"{_LETTER}\d{{4}} (?:\d\d:\d\d:\d\d(?:\.\d+)? +\d* ?)?{_PLACE}\](?: |$)",
    rf"\[{_LETTER}(?:\d{{3,4}})?(?: \d\d:\d\d:\d\d(?:\.\d+)?)? {_PLACE}\](?: |$)",  # c10
    rf":? ?{_LETTER} {_PLACE}\](?: |$)",  # TensorFlow
    rf"- (?:[\w.<>/-]{{1,120}} - ){{0,2}}{_LEVEL} - (?:[\w.<>/-]{{1,120}} - )?",
    rf"{_LEVEL}:[\w.]{{1,120}}:",
    rf"(?:\w+=\S+ ){{0,4}}level=\"?{_ANY_LEVEL}\"?(?: |$)",
    rf"<{_ANY_LEVEL}> ?",
    rf"\[ ?{_ANY_LEVEL} *\](?!\s?[A-Z][A-Z0-9_]*\(\d):?(?: |$|(?=\S))",  # not the vendor's `[ERROR] GE(12,…`
    r" *\d+ +\d+ (?P<level>[DIWEF]) [\w.$/-]{1,80} *: ",  # Android
    r"(?P<level>Info|Warning|Error) {2,}(?=\S)",
    rf"(?:\d{{1,9}} ){{0,3}}{_LEVEL}(?: ?\||:| -)?(?:[ \t]|$)",
    rf"\[[\w.]{{1,120}}\]\[{_LEVEL}\] - ",  # hydra
    rf"\[?{_PLACE}\](?: |$)",
    r"- (?=\S)",
)
_FORMS = tuple(re.compile(form) for form in (*_CLOCKS, *_WRITERS, *_LOGGERS))
_STARTS = re.compile(r" {0,16}[\[(<{|:+\-\dA-Za-z]")
_VENDOR = re.compile(rf"\[{_LEVEL}\]\s?[A-Z][A-Z0-9_]*\(\d")
_REPEATED = re.compile(r" ?(?:\x1b\[\d+m)?\[repeated \d+x across cluster\].*$")
_MOST_PREFIXES = 8
_HEAD_CHARACTERS = 1000
"""No prefixes are longer together."""


@dataclass(frozen=True, slots=True)
class Said:
    """A line without its prefixes."""

    line: str
    """Without what names the writer and the time before it: what a program printed."""
    text: str
    """Without what the logger put before it, too."""
    writer: str = ""
    """Who printed it, as the prefixes name it: `rank3`, `train pid=4711, ip=…`; empty where none does."""
    rank: int | None = None
    level: str = ""
    """`error`, `warning`, `info` or `debug` where a logger says so. Of several the innermost counts."""


def peeled(line: str) -> Said:
    """Return what a line says and who says it."""
    line = line.rstrip("\r\n")
    head = line[:_HEAD_CHARACTERS]
    at, said_at, level, rank, writers = 0, None, "", None, []
    for _ in range(_MOST_PREFIXES):
        match = _next(head, at)
        if match is None:
            break
        found = match.groupdict()
        if found.get("writer") and not (rank is not None and found.get("rank") == str(rank)):
            writers.append(found["writer"])
        rank = int(found["rank"]) if found.get("rank") else rank
        if found.get("level"):
            level = _MEANING[found["level"].upper()]
            said_at = at if said_at is None else said_at
        at = match.end()
    vendor = _VENDOR.match(head, at)
    if vendor is not None:
        level = _MEANING[vendor["level"]]
    text = _REPEATED.sub("", line[at:]) if "across cluster]" in line else line[at:]
    said = text if said_at is None else line[said_at:]
    return Said(said, text, " ".join(writers), rank, level)


def _next(head: str, at: int) -> re.Match[str] | None:
    if _STARTS.match(head, at) is None:
        return None
    return next((match for form in _FORMS if (match := form.match(head, at)) is not None), None)
