"""Runs the scripts and tells how well the answer hit the truth."""

from __future__ import annotations

import ast
import inspect
import re
import sys
from dataclasses import asdict
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from jumar.comparison import Comparison, compare
from jumar.recording import Recording
from scoreboard.harness import Outcome, Result

from .knobs import Run, Script

CODES = {
    "data": {"JM302"},
    "parameters": {"JM303", "JM302"},
    "random": {"JM307"},
    "ranks": {"JM314"},
}
"""The findings of which one must come first. Initial values of a model and of its queues are both parameters."""


class ScriptRunner:
    """Keeps the recordings of references: many cases share one."""

    def __init__(self, folder: Path, values: str = "sketch") -> None:
        self._folder, self._values = folder, values
        self._references: dict[tuple[Any, ...], Path] = {}

    def compared(self, script: Script) -> Comparison:
        """Record both runs and compare them."""
        reference = self._reference(script)
        with TemporaryDirectory(dir=self._folder) as folder:
            target = Path(folder) / "target"
            _execute(script, target, {**script.both, **script.knobs}, {"values": self._values, **script.target})
            return compare(Recording.open(reference), Recording.open(target))

    def _reference(self, script: Script) -> Path:
        key = script.program.__name__, repr(sorted(script.both.items()))
        if key not in self._references:
            folder = self._folder / f"reference-{len(self._references)}"
            _execute(script, folder, script.both, {"values": self._values})
            self._references[key] = folder
        return self._references[key]

    def run(self, script: Script) -> Result:
        """Compare both runs and judge the answer."""
        comparison = self.compared(script)
        first = comparison.first_divergence
        return Result(
            case=script.name,
            model=script.program.__name__,
            operator="",
            values=self._values,
            seed=0,
            healthy=script.healthy,
            outcome=outcome(script, comparison),
            answer=comparison.findings[0].message if comparison.findings else comparison.headline,
            truth=f"{script.cause} {' '.join(script.marks)} {script.argument}".strip(),
            multiple=first.multiple if first is not None else None,
        )


def _execute(script: Script, folder: Path, knobs: dict[str, Any], fields: dict[str, Any]) -> None:
    run = Run(folder=folder, knobs=knobs, **fields)
    with run.surroundings():
        script.program(run)


def outcome(script: Script, comparison: Comparison) -> Outcome:
    """Return how the answer fits the truth."""
    if script.healthy:
        return "quiet" if comparison.status == "agree" else "false alarm"
    if comparison.status == "agree":
        return "missed"
    if script.cause in CODES:
        codes = [finding.code for finding in comparison.findings if finding.severity.name == "ERROR"]
        right = CODES[script.cause] | (CODES["ranks"] if script.rank is not None else set())
        return "exact" if set(codes[:1]) <= right and codes else "false alarm"
    return "exact" if _is_named(script, comparison) else "false alarm"


def _is_named(script: Script, comparison: Comparison) -> bool:
    first = comparison.first_divergence
    if script.cause == "ranks":
        return any(finding.code == "JM314" for finding in comparison.findings[:1])
    if first is None or (script.rank is not None and first.rank != script.rank):
        return False
    named = not script.argument or any(argument.name == script.argument for argument in first.arguments)
    paths = {mark.removeprefix("module ") for mark in script.marks if mark.startswith("module ")}
    if paths:
        return first.module_path in paths
    optimizer = script.cause == "optimizer"
    right_kind = first.kind == "optimizer" if optimizer else first.kind != "optimizer"
    lines = {line for mark in script.marks for line in marked(script, mark)}
    return named and right_kind and bool({Path(at).name for at in (first.source, first.reference_source)} & lines)


@cache
def _marks(file: str) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    text = Path(file).read_text("utf-8")
    statements = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Assign | ast.Expr | ast.Return)]
    for number, line in enumerate(text.splitlines(), 1):
        for mark in re.findall(r"@([a-z ]+)", line.partition("  # ")[2]):
            around = [node for node in statements if node.lineno <= number <= (node.end_lineno or 0)]
            lines = range(around[0].lineno, (around[0].end_lineno or 0) + 1) if around else [number]
            found.setdefault(mark.strip(), set()).update(f"{Path(file).name}:{line}" for line in lines)
    return found


def marked(script: Script, mark: str) -> set[str]:
    """Return the lines of a script's file that carry a mark, as recordings name lines."""
    file = inspect.getsourcefile(sys.modules[script.program.__module__])
    assert file is not None
    lines, start = inspect.getsourcelines(script.program)
    inside = range(start, start + len(lines))
    found = _marks(file).get(mark, set())
    own = {line for line in found if int(line.rpartition(":")[2]) in inside}
    return own or found


__all__ = ["ScriptRunner", "asdict", "marked", "outcome"]
