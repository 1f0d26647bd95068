"""Times the settings that autotune suggests against others, in an interpreter that has MindSpore."""

from __future__ import annotations

import copy
import json
import statistics
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from jumar.advise.datasets.report import Pipeline
from jumar.base.errors import InputError
from jumar.base.process import children

ROUNDS = 7
"""By chance all of them go one way in one case of 64."""
SECONDS = 5.0
"""Of one pipeline in one round; an epoch that takes longer is timed so far."""
Answer = Literal["faster", "slower", "no difference"]


@dataclass(frozen=True, slots=True)
class Measured:
    """Two settings of one pipeline, timed in turn. Lists have one entry a round."""

    before: str
    """What the suggestion was timed against."""
    before_ms: tuple[float, ...]
    """Milliseconds a batch."""
    after_ms: tuple[float, ...]
    is_whole: bool
    """Whether every round was a whole epoch."""

    @property
    def ratios(self) -> list[float]:
        """How many times faster the suggestion was, by round."""
        return [old / new for old, new in zip(self.before_ms, self.after_ms, strict=True)]

    @property
    def ratio(self) -> float:
        """Their median."""
        return statistics.median(self.ratios)

    @property
    def answer(self) -> Answer:
        """Faster or slower only where every round says so."""
        if min(self.ratios) > 1:
            return "faster"
        return "slower" if max(self.ratios) < 1 else "no difference"

    def to_json(self) -> dict[str, Any]:
        """Return the times and what they say."""
        return {
            "against": self.before, "answer": self.answer, "ratio": round(self.ratio, 3),
            "ratio_low": round(min(self.ratios), 3), "ratio_high": round(max(self.ratios), 3),
            "before_ms_per_batch": [round(one, 3) for one in self.before_ms],
            "after_ms_per_batch": [round(one, 3) for one in self.after_ms], "whole_epochs": self.is_whole,
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class NotMeasured:
    """Why nothing was timed."""

    reason: str


def measure(
    after: Pipeline, before: Pipeline | None, python: Path, *, rounds: int = ROUNDS, seconds: float = SECONDS
) -> Measured | NotMeasured:
    """Time `after` against `before`, or against itself with MindSpore's defaults.

    Both run as MindSpore reads them from the file: the pipeline's own operators, its files, no model. Raises InputError
    where `python` cannot be started or has no MindSpore.
    """
    told = unmeasurable(after) or (unmeasurable(before) if before is not None else "")
    if told:
        return NotMeasured(told)
    first = dict(copy.deepcopy(after.tree)) | {"use_defaults": True} if before is None else dict(before.tree)
    times: tuple[list[float], list[float]] = ([], [])
    defaults, is_whole = (0, 0), True
    for line in _lines(python, {"trees": [first, dict(after.tree)], "rounds": rounds, "seconds": seconds}):
        if "failed" in line:
            which = after.path if line["failed"] or before is None else before.path
            return NotMeasured(f"MindSpore cannot run the pipeline of {which}: {_sentence(line['why'])}")
        if "defaults" in line:
            defaults = tuple(line["defaults"])
        elif line["round"]:
            if not line["batches"]:
                return NotMeasured(f"the pipeline of {after.path} gives no batch.")
            times[line["pipeline"]].append(1000 * line["seconds"] / line["batches"])
            is_whole = is_whole and line["whole"]
    if len(times[0]) != rounds or len(times[1]) != rounds:
        return NotMeasured("the interpreter with MindSpore ended before all rounds were done.")
    name = (
        str(before.path)
        if before is not None
        else f"MindSpore's defaults ({defaults[0]} workers, queues of {defaults[1]})"
    )
    return Measured(name, tuple(times[0]), tuple(times[1]), is_whole)


def unmeasurable(pipeline: Pipeline) -> str:
    """Return why a pipeline cannot be run from its file; empty where it can."""
    functions = [name for stage in pipeline.stages for name in stage.python]
    if functions:
        return (
            f"the pipeline calls Python functions ({', '.join(functions)}), which its file does not hold. "
            "Time your own script with the settings, once with and once without."
        )
    if any(stage.name.startswith("Generator") for stage in pipeline.stages):
        return "the pipeline's source is a Python generator, which its file does not hold. Time your own script."
    return ""


def _lines(python: Path, asked: dict[str, Any]) -> Iterator[dict[str, Any]]:
    try:
        done = subprocess.run(
            children.of_another(python, Path(__file__).with_name("timing_script.py")),
            input=json.dumps(asked),
            capture_output=True,
            text=True,
            check=False,
        )
    except OSError as error:
        raise InputError(
            f"--measure {python}: cannot be started ({error.strerror}). Name a Python interpreter."
        ) from error
    if "No module named 'mindspore'" in done.stderr:
        raise InputError(f"--measure {python}: it has no MindSpore. Name the Python interpreter that has it.")
    for line in done.stdout.splitlines():
        if line.startswith("JUMAR "):
            yield json.loads(line.removeprefix("JUMAR "))


def _sentence(text: str) -> str:
    """Return the telling line of an error of MindSpore's."""
    lines = [line.strip() for line in text.splitlines() if line.strip(" -")]
    told = [line for line in lines if "[ERROR]" in line or "Error" in line.split(":")[0]]
    return (told or lines or ["it says nothing more."])[-1].replace("[ERROR]", "").strip()
