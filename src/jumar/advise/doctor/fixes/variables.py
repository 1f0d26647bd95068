"""`variable_changes`: one file with the `export`, `unset`, `ulimit` and `source` lines that findings ask for."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path

from jumar.advise.doctor.fixes.change import Change, Variables
from jumar.advise.doctor.machine.host import Host
from jumar.base.findings import Finding
from jumar.base.host import read_text

FILE = "jumar-doctor-env.sh"
_NAME = r"[A-Za-z_][A-Za-z0-9_]*"
_ASSIGNED = rf"{_NAME}=(?:\"[^\"$`\\]*\"|'[^']*'|[^\s;'\"`$()<>|&]+)"
_COMMAND = re.compile(
    rf"(?<![\w-])(?:export (?P<set>{_ASSIGNED}(?: {_ASSIGNED})*)|unset (?P<unset>{_NAME}(?: {_NAME})*)(?![\w=])"
    r"|ulimit -(?P<limit>[nus]) (?P<number>\d+)|source (?P<source>/[\w./+-]+/set_env\.sh))"
)
_LOOSE = re.compile(r"(?<![\w$/.-])(?<!export )(?<!-e )[A-Z][A-Z0-9]*_[A-Z0-9_]*=(?=[\w./'\"])")
_OWN_END = re.compile(rf"(?P<name>{_NAME})=(?P<head>[\w./:+-]*):\$\{{?(?P=name)\}}?[.,]?")
"""A path that is put before the old value: `LD_LIBRARY_PATH=/x:$LD_LIBRARY_PATH`."""
_PLACEHOLDER = re.compile(
    r"=(?:ADDRESS|DIR|FOLDER|PATH|NAME|[NXYM]|NUMBER|VALUE|PORT|HOST|IP|INTERFACE|FILE|DEVICES?|/(?:path|some|your)\b.*|"
    r".*\.\.\..*|.*….*|<.*>)"
)
"""A value such as ADDRESS or /path/to stands for one that only a person knows."""
_KEYWORDS = ("the", "it", "them", "both", "that", "or", "and", "either", "one")
_LIMITS = {"n": "Max open files", "u": "Max processes", "s": "Max stack size"}


def variable_changes(host: Host, findings: Sequence[Finding], folder: Path) -> Iterator[Change]:
    """Yield the file, where a finding asks for a line of it."""
    lines: dict[str, str] = {}
    codes: dict[str, None] = {}
    for finding in findings:
        is_of_log = finding.code.startswith("JM85")
        found = dict(commands_in(finding.action, host, loosely=is_of_log))
        if found:
            codes[finding.code] = None
            lines |= found
    if lines:
        path = folder / FILE
        old = path.read_text("utf-8", "replace") if path.is_file() else None
        yield Variables(path=path, commands=tuple(lines.items()), old=old, code=",".join(codes))


def commands_in(action: str, host: Host, *, loosely: bool = False) -> Iterator[tuple[str, str]]:
    """Yield the lines that an action asks for, each with the line that takes it back.

    Of alternatives ("export A=1, or export A=2") the first counts. `loosely` takes `run with A_B=1` as
    `export A_B=1`, as entries of known errors say it.
    """
    first = re.split(r"\bor\b (?=export|unset|ulimit|source|[A-Z][A-Z0-9]*_[A-Z0-9_]*=)", action)[0]
    if loosely:
        first = _LOOSE.sub(r"export \g<0>", first)
    for match in _OWN_END.finditer(first):
        name, head = match["name"], shlex.quote(match["head"])
        yield f'export {name}={head}"${{{name}:+:${name}}}"', _back(name, host)
    for match in _COMMAND.finditer(_OWN_END.sub("", first)):
        if match["set"]:
            for word in (one.rstrip(".,") for one in shlex.split(match["set"])):  # a sentence goes on or ends
                if "=" in word and not _PLACEHOLDER.fullmatch(word[word.index("=") :]):
                    yield _export(word, host)
        elif match["unset"]:
            for name in match["unset"].split():
                if name not in _KEYWORDS and name in host.environ:
                    yield f"unset {name}", _back(name, host)
        elif match["limit"]:
            yield from _limit(match["limit"], int(match["number"]))
        else:
            yield f". {shlex.quote(match['source'])}", "# what set_env.sh set stays: start a new shell"


def _export(word: str, host: Host) -> tuple[str, str]:
    name, _, value = word.partition("=")
    return f"export {name}={shlex.quote(value)}", _back(name, host)


def _back(name: str, host: Host) -> str:
    old = host.environ.get(name)
    return f"unset {name}" if old is None else f"export {name}={shlex.quote(old)}"


def _limit(kind: str, number: int) -> Iterator[tuple[str, str]]:
    """A soft limit may be raised up to the hard one by any user."""
    soft, hard = _limits_now(_LIMITS[kind])
    wanted = number if hard is None else min(number, hard)
    if soft is not None and wanted <= soft:
        return
    back = f"ulimit -S{kind} {soft}" if soft is not None else f"# the old limit of ulimit -{kind} is unknown"
    yield f"ulimit -S{kind} {wanted}", back


def _limits_now(name: str) -> tuple[int | None, int | None]:
    """Return the soft and hard limit as `ulimit` counts them (the stack in KiB); None for unlimited or unknown."""
    for line in read_text(Path("/proc/self/limits")).splitlines():
        if line.startswith(name):
            words = line.removeprefix(name).split()[:2]
            sizes = [int(word) if word.isdigit() else None for word in words]
            if name == "Max stack size":
                sizes = [None if size is None else size // 1024 for size in sizes]
            return (sizes[0], sizes[1]) if len(sizes) == 2 else (None, None)
    return None, None
