"""JM481 dataset-settings.

## What it does
Reads a report of MindSpore's dataset autotune and says which settings it suggests: `num_parallel_workers` and
`prefetch_size` of each operator. With `--measure PYTHON` it runs the pipeline with those settings and with others in
turn, and says whether they are faster on this machine.

## Why it matters
Autotune watches queues while a model trains. Its report says what it changed and not whether it helped; workers beyond
the cores of a machine slow it down.

## Example
```python
data = data.map(operations, num_parallel_workers=1)
```

## Use instead
```python
data = data.map(operations, num_parallel_workers=2)
ds.config.set_prefetch_size(60)
```

## Fix safety
No edit is made. `--measure` runs the pipeline that the file describes: its operators read your files.

## References
MindSpore's documentation, "Dataset AutoTune"; the MindSpore migration guide, "data processing".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from jumar.advise.checks import NotChecked, not_checked
from jumar.advise.datasets.measure import Measured, NotMeasured
from jumar.advise.datasets.report import Pipeline, Stage
from jumar.base.findings import Finding, Location, Severity
from jumar.base.rules import Rule
from jumar.base.text import counted

RULE = Rule(
    code="JM481",
    name="dataset-settings",
    summary="Dataset autotune suggests other settings of a pipeline.",
    severity=Severity.ADVICE,
    doc=__doc__,
)


@dataclass(frozen=True, slots=True)
class DatasetAdvice:
    """What a report of autotune says, and what was timed."""

    pipeline: Pipeline
    before: Pipeline | None
    measured: Measured | None
    findings: Sequence[Finding]
    not_checked: Sequence[NotChecked]

    def to_json(self) -> dict[str, Any]:
        """Return the settings of each operator, what was timed, and what was not."""
        return {
            "source": str(self.pipeline.path),
            "remark": self.pipeline.remark,
            "changed": self.pipeline.is_changed,
            "operators": [
                {"name": one.name, "num_parallel_workers": one.num_parallel_workers, "prefetch_size": one.prefetch_size}
                for one in self.pipeline.stages
            ],
            "measured": self.measured.to_json() if self.measured else None,
            "not_checked": [one.to_json() for one in self.not_checked],
        }


def judged(pipeline: Pipeline, before: Pipeline | None, outcome: Measured | NotMeasured | None) -> DatasetAdvice:
    """Return the findings about a report; `outcome` is None where nobody asked for a measurement."""
    measured = outcome if isinstance(outcome, Measured) else None
    gaps = []
    if measured is None:
        reason = outcome.reason if isinstance(outcome, NotMeasured) else _HOW.format(path=pipeline.path)
        gaps.append(not_checked(RULE, f"whether the settings are faster: {reason}", partly=True))
    return DatasetAdvice(pipeline, before, measured, list(_findings(pipeline, before, measured)), gaps)


_HOW = (
    "nothing was timed. Add --measure PYTHON, an interpreter that has MindSpore: jumar advise {path} --measure PYTHON."
)


def _findings(pipeline: Pipeline, before: Pipeline | None, measured: Measured | None) -> Iterator[Finding]:
    if not pipeline.is_changed and before is None and measured is None:
        return
    if measured is not None and measured.answer != "faster":
        yield _not_faster(pipeline, measured)
    elif measured is not None or pipeline.is_changed:
        yield _suggested(pipeline, before, measured)


def _suggested(pipeline: Pipeline, before: Pipeline | None, measured: Measured | None) -> Finding:
    told = f": {measured.ratio:.2f} times as fast here as {measured.before}" if measured else ""
    spread = f" ({min(measured.ratios):.2f} to {max(measured.ratios):.2f})" if measured else ""
    number = len([one for one in pipeline.stages if one.num_parallel_workers is not None])
    return RULE.finding(
        f"Dataset autotune suggests settings for {counted(number, 'operator')} of the pipeline{told}{spread}.",
        where=Location(path=str(pipeline.path)),
        evidence=_evidence(measured),
        why="A model waits for its batches when an operator of the pipeline is slower than a step.",
        action=f"Take all of them with ds.deserialize(json_filepath='{pipeline.path.name}'), or set "
        + "; ".join(_setting(stage) for stage in changed(pipeline, before))
        + ".",
        confidence="certain" if measured else "possible",
    )


def _not_faster(pipeline: Pipeline, measured: Measured) -> Finding:
    said = (
        f"{1 / measured.ratio:.2f} times slower than {measured.before} in every round"
        if measured.answer == "slower"
        else f"no faster than {measured.before} beyond the noise"
    )
    low, high = min(measured.ratios), max(measured.ratios)
    return RULE.finding(
        f"The settings of {pipeline.path.name} are {said} ({low:.2f} to {high:.2f} times as fast).",
        where=Location(path=str(pipeline.path)),
        evidence=_evidence(measured),
        why="Autotune's report does not say whether its settings helped.",
        action="Leave the settings as they are on this machine; measure on the one that trains.",
        severity=Severity.INFO,
    )


def _evidence(measured: Measured | None) -> dict[str, Any]:
    return {key: value for key, value in measured.to_json().items() if "per_batch" not in key} if measured else {}


def changed(pipeline: Pipeline, before: Pipeline | None) -> list[Stage]:
    """Return the operators whose settings differ from those before; all with settings where no pipeline is before."""
    known = [one for one in pipeline.stages if one.num_parallel_workers is not None]
    if before is None or [one.name for one in before.stages] != [one.name for one in pipeline.stages]:
        return known
    pairs = zip(pipeline.stages, before.stages, strict=True)
    return [new for new, old in pairs if new != old and new in known] or known


def _setting(stage: Stage) -> str:
    queue = f", prefetch_size={stage.prefetch_size}" if stage.prefetch_size is not None else ""
    return f"{stage.name}: num_parallel_workers={stage.num_parallel_workers}{queue}"
