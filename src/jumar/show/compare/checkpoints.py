"""The comparison of two checkpoints for the terminal: counts, then the parameters that differ, side by side."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING

from jumar.comparison.model.words import number
from jumar.show.compare.summary import wrapped

if TYPE_CHECKING:
    from jumar.comparison.model.results import Comparison
    from jumar.comparison.verdict.checkpoints import ParameterPair

MAX_ROWS = 20


def checkpoints_text(comparison: Comparison, pairs: Sequence[ParameterPair]) -> str:
    """Return the answer, how many parameters each side has, and those that do not agree (or the first ones, where all
    do)."""
    differing = [pair for pair in pairs if pair.status != "agrees"]
    shown = (differing or list(pairs))[:MAX_ROWS]
    lines = [*wrapped(comparison.headline, max_lines=3), *_counts(pairs), *_table(shown)]
    left = len(differing or pairs) - len(shown)
    if left:
        lines.append(f"  … and {left:,} more; --json has all")
    action = next((finding.action for finding in comparison.findings if finding.action), "")
    if differing and action:
        lines += wrapped(f"next: {action}", "  ")
    lines += [f"  reference  {comparison.reference.path}", f"  target     {comparison.target.path}"]
    return "\n".join(lines)


def _counts(pairs: Sequence[ParameterPair]) -> list[str]:
    lines = []
    for side in ("reference", "target"):
        own = [pair for pair in pairs if getattr(pair, side)]
        trained = [pair for pair in own if pair.is_trainable]
        elements, of_trained = (
            sum(prod(getattr(one, f"{side}_shape") or ()) for one in some) for some in (own, trained)
        )
        lines.append(
            f"  {side:<9}  {len(own):,} parameters, {elements:,} elements; trainable by name: {len(trained):,}, "
            f"{of_trained:,} elements"
        )
    return lines


def _table(pairs: Sequence[ParameterPair]) -> list[str]:
    rows = [
        (
            pair.reference or "–",
            _shape(pair.reference_shape),
            pair.target or "–",
            _shape(pair.target_shape),
            pair.status + (f" by {number(pair.error)}" if pair.error is not None else "")
            + (f" ({pair.note})" if pair.note else ""),
        )
        for pair in pairs
    ]  # fmt: skip
    widths = [max((len(row[place]) for row in rows), default=0) for place in range(4)]
    return [
        "    " + "  ".join(f"{text:<{width}}" for text, width in zip(row, (*widths, 0), strict=True)) for row in rows
    ]


def _shape(shape: tuple[int, ...] | None) -> str:
    return "" if shape is None else str(list(shape))
