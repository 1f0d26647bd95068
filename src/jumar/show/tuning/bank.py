"""The knowledge bank in the terminal: what it knows, and what became of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table
from rich.text import Text

from jumar.base.text.language import translate
from jumar.show.terminal.tell import tell
from jumar.tune.plan.plan import worded

if TYPE_CHECKING:
    from jumar.tune.bank.precisions import Known
    from jumar.tune.graph.graph import Work

PIPE_WIDTH = 160
"""Columns of a table that goes to a file or another program."""
SHORT_KEY = 12
"""Characters of a key that lists show; `show` takes any beginning that only one task has."""


def make_table(titles: list[str], rows: list[list[str]]) -> Table:
    """Return a table without lines; the column `Key` is never broken."""
    table = Table(box=None, padding=(0, 2, 0, 0))
    for title in titles:
        table.add_column(translate(title), no_wrap=title == "Key", overflow="fold")
    for row in rows:
        table.add_row(*map(Text, row))
    return table


def print_table(answer: str, table: Table) -> None:
    """Print the answer, and the table where it has rows."""
    tell(answer)
    if table.rows:
        console = Console()
        (console if console.is_terminal else Console(width=PIPE_WIDTH)).print(table)


def known_table(known: Sequence[Known]) -> Table:
    """Return the table of what a bank knows."""
    return make_table(["Key", "Operator", "Kind", "Policy", "Gain", "Device"], list(map(_list_row, known)))


def measured(entry: Known) -> Iterator[str]:
    """Yield the lines that say what was measured for an entry."""
    yield f"\n{entry.kind} on {entry.machine}, {entry.updated}"
    policy = worded(entry.policy) if entry.policy else "no faster policy"
    yield f"  {policy}" + (f": {entry.gain}" if entry.gain else "")
    for tried in entry.tried:
        how = tried.outcome.gain or tried.outcome.detail
        yield f"  {'replaced' if tried.replaced else 'tried'} {worded(tried.policy)}: {tried.outcome.status}: {how}"


def described(work: Work) -> Iterator[str]:
    """Yield the lines that say what a task or graph is."""
    yield f"{work.operator}  {work.key}"
    is_graph = work.operator == "graph"
    for name, spec in work.tensors.items():
        if not (is_graph and spec.constant):
            yield f"  {name}: {spec}" + (" (a weight)" if spec.constant else "")
    if is_graph:
        yield f"  weights: {sum(spec.constant for spec in work.tensors.values())}"
    yield from (f"  {name}: {value}" for name, value in work.arguments.items())
    if is_graph:
        counts = Counter(node.operator for node in getattr(work, "nodes", ()))
        yield from (f"  {name}: {count} times" for name, count in counts.most_common())


def _list_row(entry: Known) -> list[str]:
    gain = f"{(entry.gain.ratio - 1) * 100:+.1f} %" if entry.gain is not None else ""
    if entry.gain is not None and entry.gain.is_estimate:
        gain += ", estimate"
    policy = worded(entry.policy) if entry.policy is not None else f"none of {len(entry.tried)} tried"
    return [entry.task.key[:SHORT_KEY], str(entry.task), entry.kind, policy, gain, _short(entry)]


def _short(entry: Known) -> str:
    return f"{entry.machine.target}, torch {entry.machine.torch}"
