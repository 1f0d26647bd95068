"""The summary of a replay for the terminal: the answer first, then the worst operators with three figures each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from jumar.base.text import counted
from jumar.comparison.model.words import number
from jumar.comparison.replay.findings import ranked
from jumar.comparison.replay.results import Replayed
from jumar.comparison.replay.words import figures, place
from jumar.show.compare.summary import WIDTH
from jumar.show.terminal.tell import told_lines


def headline(replayed: Sequence[Replayed]) -> str:
    """Return the answer in one sentence."""
    faults = [row for row in ranked(replayed) if row.verdict == "own fault"]
    known = sum(row.cause is None for row in replayed)
    if not known:
        return f"None of {counted(len(replayed), 'operator')} could be replayed."
    if not faults:
        return f"No operator has an error of its own: {counted(known, 'operator')} computed their inputs correctly."
    first = min(faults, key=lambda row: (row.row.rank, row.row.step, row.row.seq))
    return (
        f"{counted(len(faults), 'operator')} of {known:,} {'has' if len(faults) == 1 else 'have'} an error of "
        f"{'its' if len(faults) == 1 else 'their'} own; the first is {first.row.name} of {place(first.row)}."
    )


def summary_text(replayed: Sequence[Replayed], top: int = 8) -> str:
    """Return the answer, the `top` operators and the counts, each on a line."""
    rows = [row for row in ranked(replayed) if row.cause is None]
    faults = sum(row.verdict == "own fault" for row in rows)
    lines = [headline(replayed)]
    lines += [f"  {row.row.name} of {place(row.row)}: {figures(row)}" for row in rows[: min(faults, 2)]]
    lines += _table(rows[:top])
    lines.append(_counts(replayed))
    return told_lines("\n".join(lines))


def _table(rows: Sequence[Replayed]) -> list[str]:
    if not rows:
        return []
    beside = any(row.reference_row is not None for row in rows)
    device = any(row.on_error is not None for row in rows)
    titles = ["verdict", "own", "ulps", "rounding"]
    titles += (["reference", "inherited"] if beside else []) + ([f"on {rows[0].on}"] if device else [])
    lines = ["  " + "".join(f"{title:>11}" for title in titles[1:]) + f"  {titles[0]:<16}operator"]
    for row in rows:
        cells = [row.own_error, row.own_ulps, row.tolerance]
        cells += [row.reference_error, row.inherited] if beside else []
        on = row.on_error.worst if row.on_error is not None else None
        cells += [on.error if on is not None else None] if device else []
        numbers = "".join(f"{number(cell) if cell is not None else '-':>11}" for cell in cells)
        where = f"{row.row.step}:{row.row.name} {row.row.module_path or '-'} {row.row.phase}"
        lines.append(f"  {numbers}  {row.verdict:<16}{where}"[: WIDTH + 20])
    return lines


def _counts(replayed: Sequence[Replayed]) -> str:
    verdicts = Counter(row.verdict for row in replayed)
    causes = Counter(row.cause for row in replayed if row.cause is not None)
    why = ", ".join(f"{count:,} {cause}" for cause, count in causes.most_common())
    same = [row for row in replayed if row.on_difference is not None]
    parts = [", ".join(f"{count:,} {verdict}" for verdict, count in verdicts.most_common())]
    if why:
        parts.append(f"not replayable: {why}")
    if same:
        identical = sum(row.on_difference is not None and row.on_difference.bit_identical for row in same)
        parts.append(f"{identical:,} of {len(same):,} bit-identical on {same[0].on}")
    return f"  replayed   {'; '.join(parts)}"
