"""The scoreboard's results as the tables of the documentation."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

OUTCOMES = {"exact": "named exactly", "near": "within one operator", "missed": "missed", "false alarm": "false alarm"}
MODELS = ("cnn", "gpt", "seq2seq", "recurrent", "gpt, two ranks")
VALUES = ("sketch", "stats", "tensors")

HEAD = """# Scoreboard: injected faults, and what `jumar compare` names

Written by `python benchmarks/accuracy_scoreboard.py`; not to be edited. Four small models (a CNN with batch norm, a
GPT, an encoder-decoder with padding masks, an LSTM with a GRU cell) train for two steps (healthy pairs: three, faults
that begin in the third step: four) under the observer, once as the reference and once with something changed.
`compare` runs with its default settings. `modules only`: recorded without operators; the module is to be named.

- **named exactly**: operator, module path, phase and step of the first divergence are the ones where the fault sits;
  or, where no operator is at fault, the finding is the right one (other data, other weights, other random numbers).
- **within one operator**: at most one calculating operator lies between what was named and the fault.
- **missed**: the runs were said to agree. **false alarm**: something else was named; for a healthy pair, anything.

A kernel fault changes the result of one call below the observer, as a wrong kernel of a device would: nothing but the
numbers tells. `stats` keeps minimum, maximum, mean and L2 norm of a tensor, `sketch` (the default) 64 numbers more,
`tensors` everything.
"""


def scoreboard_page(kept: Mapping[str, Any]) -> str:
    """Return docs/accuracy-scoreboard.md."""
    results = kept["results"]
    faults = [result for result in results if not result["healthy"]]
    fine = [result for result in results if result["healthy"]]
    return "\n".join(
        [
            HEAD,
            "## In short\n",
            *_summary(faults, fine),
            "\n## Faults\n",
            "Counts of runs (seeds) by outcome; a plain number is `named exactly`.\n",
            *_cases(faults, "exact"),
            "\n## Healthy pairs\n",
            "Runs of which nothing was said; anything else is a false alarm.\n",
            *_cases(fine, "quiet"),
            "\n## Not named exactly\n",
            *_failures(results),
            f"\nMeasured with torch {kept['environment']['torch']}, Python {kept['environment']['python']}, "
            f"{kept['environment']['machine']}.\n",
        ]
    )


def _summary(faults: Sequence[Mapping[str, Any]], fine: Sequence[Mapping[str, Any]]) -> list[str]:
    lines = [
        "| values | runs with a fault | named exactly | within one operator | missed | false alarm "
        "| healthy pairs | false alarms there |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for values in VALUES:
        outcomes = Counter(result["outcome"] for result in faults if result["values"] == values)
        quiet = Counter(result["outcome"] for result in fine if result["values"] == values)
        total = outcomes.total()
        if not total:
            continue
        cells = [f"{outcomes[name]} ({100 * outcomes[name] / total:.1f} %)" for name in OUTCOMES]
        lines.append(f"| {values} | {total} | {' | '.join(cells)} | {quiet.total()} | {quiet['false alarm']} |")
    return lines


def _cases(results: Iterable[Mapping[str, Any]], right: str) -> list[str]:
    """Return one line a case and model: what came of it with each kind of values."""
    outcomes: dict[tuple[str, str, str], dict[str, Counter[str]]] = defaultdict(lambda: defaultdict(Counter))
    for result in results:
        outcomes[result["case"], result["operator"], result["model"]][result["values"]][result["outcome"]] += 1
    names = list(dict.fromkeys((case, operator) for case, operator, _ in outcomes))
    models = [model for model in MODELS if any(model == key[2] for key in outcomes)]
    lines = [f"| case | {' | '.join(models)} |", f"|---|{'---|' * len(models)}"]
    for case, operator in names:
        shown = f"{case} (`{operator}`)" if operator else case
        cells = [_cell(outcomes.get((case, operator, model), {}), right) for model in models]
        lines.append(f"| {shown} | {' | '.join(cells)} |")
    return lines


def _cell(by_values: Mapping[str, Counter[str]], right: str) -> str:
    """Return `6` when all six runs are right, else what came of each kind of values."""
    if not by_values:
        return "–"
    if all(set(counts) == {right} for counts in by_values.values()):
        return str(sum(counts.total() for counts in by_values.values()))
    parts = []
    for values in VALUES:
        for outcome, count in by_values.get(values, Counter()).items():
            parts.append(f"{values}: {count}" if outcome == right else f"{values}: **{count} {outcome}**")
    return ", ".join(parts)


def _failures(results: Iterable[Mapping[str, Any]]) -> list[str]:
    lines = ["| case | model | values | outcome | answer | fault |", "|---|---|---|---|---|---|"]
    seen = dict.fromkeys(
        (r["case"], r["model"], r["values"], r["outcome"], r["answer"], r["truth"])
        for r in results
        if r["outcome"] not in {"exact", "quiet"}
    )
    return [*lines, *(f"| {' | '.join(row)} |" for row in seen)] if seen else ["None."]


def calibration_tables(kept: Mapping[str, Any]) -> str:
    """Return the measured part of docs/noise-floor.md."""
    found: dict[tuple[str, str, str], list[Mapping[str, Any]]] = defaultdict(list)
    for item in kept["calibration"]:
        found[item["floor"], item["case"], item["values"]].append(item)
    lines = [
        "| floor | healthy pair | values | outputs | median | 99 % | greatest |",
        "|---|---|---|---|---|---|---|",
    ]
    for (floor, case, values), items in sorted(found.items()):
        figures = [max(item[name] for item in items) for name in ("median", "q99", "greatest")]
        shown = " | ".join(f"{figure:.2f}" for figure in figures)
        lines.append(f"| {floor} | {case} | {values} | {sum(item['num_outputs'] for item in items):,} | {shown} |")
    return "\n".join([*lines, ""])
