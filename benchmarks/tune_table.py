"""The tables of `benchmarks/tune.py`, made from what was measured and nothing else."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

START, END = "<!-- measured: benchmarks/tune.py -->", "<!-- end of measured -->"
NAMES = {
    "eager": "eager", "eager-cl": "eager cl", "compile": "compile", "compile-best": "fz+ma",
    "compile-best-cl": "fz+ma cl",
    "onnxruntime": "ORT", "openvino": "OpenVINO", "openvino-bf16": "OpenVINO bf16", "tvm": "TVM", "jumar": "Jumar",
    "jumar-file": "Jumar's file",
}  # fmt: skip
RATIOS = {"jumar": "ratio", "jumar-file": "ratio_file"}
"""How cells call an engine's time over that of Jumar, compiled by `torch.compile` or loaded from its file."""
HEADS = ("best other / Jumar", "best other / Jumar's file")
LOWER = ("openvino-bf16",)


def table(rows: Sequence[dict[str, Any]]) -> str:
    """Return a Markdown table: medians in milliseconds, the best other fp32 engine over Jumar with its interval."""
    engines = [name for name in NAMES if any(name in row["engines"] for row in rows)]
    lines = [
        "| " + " | ".join(["model:batch:threads", *(NAMES[name] for name in engines), *HEADS]) + " |",
        "|" + "---|" * (len(engines) + 1 + len(HEADS)),
    ]
    for row in sorted(rows, key=lambda row: row["row"]):
        cells = [row["row"] + ("" if row["quiet"] else " *")]
        cells += [milliseconds(row["engines"].get(name)) for name in engines]
        cells += [ratio_text(row, name) for name in RATIOS.values()]
        lines.append("| " + " | ".join(cells) + " |")
    if any(not row["quiet"] for row in rows):
        lines += ["", "\\* measured while other programs used the machine"]
    return "\n".join(lines)


def milliseconds(cell: dict[str, Any] | None) -> str:
    if cell is None or "median_us" not in cell:
        return "–"
    return f"{cell['median_us'] / 1000:.3g}"


def best_other(row: dict[str, Any]) -> dict[str, Any] | None:
    """Return the fastest engine besides Jumar that computes in the model's own precision."""
    others = [cell for name, cell in row["engines"].items() if name not in (*RATIOS, *LOWER) and "median_us" in cell]
    return min(others, key=lambda cell: cell["median_us"], default=None)


def ratio_text(row: dict[str, Any], ratio: str) -> str:
    best = best_other(row)
    if best is None or ratio not in best:
        return "–"
    return f"{best[ratio]:.2f} ({best[f'{ratio}_low']:.2f} to {best[f'{ratio}_high']:.2f})"


def summary(rows: Sequence[dict[str, Any]]) -> list[str]:
    """Return the figures that the aims are about, one line each; nothing for rows that were not measured."""
    kinds = {
        "inference at the model's precision": lambda name: "train" not in name and name.count(":") == 2,
        "training steps": lambda name: "train" in name,
        "with an error budget": lambda name: name.count(":") == 3,
    }
    lines = []
    for title, fits in kinds.items():
        bests = [best for row in rows if fits(row["row"]) and (best := best_other(row)) is not None]
        for head, name in zip(HEADS, RATIOS.values(), strict=True):
            ratios = [best[name] for best in bests if name in best]
            if ratios:
                mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
                lines.append(
                    f"{title}: {len(ratios)} rows, {head} {mean:.3f} in the geometric mean, {min(ratios):.3f} at worst"
                )
    return lines


def by_machine(rows: Sequence[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """Return the rows of each machine, in the order in which machines were first measured."""
    machines = dict.fromkeys(machine_of(row) for row in rows)
    return [[row for row in rows if machine_of(row) == machine] for machine in machines]


def machine_of(row: dict[str, Any]) -> str:
    return f"{row['machine']['model']} ({row['machine']['capability']})"


def told(rows: Sequence[dict[str, Any]]) -> str:
    """Return all that is said of one machine: on what, the table, the figures that the aims are about."""
    figures = "\n".join(f"- {line}" for line in summary(rows))
    return f"{conditions(rows)}\n\n{table(rows)}\n\n{figures}"


def guide_with(text: str, rows: Sequence[dict[str, Any]]) -> str:
    """Return the document with a table for each machine between its marks. Raises ValueError when it has none."""
    head, begin, rest = text.partition(START)
    _, end, tail = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the document must have the marks {START} and {END}")
    tables = "\n\n".join(map(told, by_machine(rows)))
    return f"{head}{START}\n{tables}\n{END}{tail}"


def conditions(rows: Sequence[dict[str, Any]]) -> str:
    """Say on what the rows were measured."""
    machines = sorted({machine_of(row) for row in rows})
    torches = sorted({row["versions"]["torch"] for row in rows})
    budgets = sorted({row["budget"] for row in rows})
    dates = sorted(row["date"][:10] for row in rows)
    return (
        f"Medians in ms on {', '.join(machines)}, torch {', '.join(torches)}, {dates[0]} to {dates[-1]}, "
        f"{', '.join(budgets)} of tuning a row."
    )
