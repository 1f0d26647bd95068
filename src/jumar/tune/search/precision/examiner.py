"""The tuner's end of an examination."""

from __future__ import annotations

import json
import math
import os
import select
import subprocess
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from jumar.base.process import children
from jumar.tune.graph import Graph, Reference
from jumar.tune.measure.worker.client import end_process
from jumar.tune.measure.worker.messages import Limits, answer_in
from jumar.tune.measure.worker.surroundings import ROOT, worker_environment
from jumar.tune.model.errors import TuneError
from jumar.tune.plan import Plan
from jumar.tune.plan.lowering.lowering import Lowering, Range
from jumar.tune.search.precision.request.error import metric_from_anywhere

CLOSE_TIMEOUT_S = 5
SEEDS = (0, 1, 2)
"""The real inputs, where there are some, and two random sets of their scale."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Errors:
    """How wrong outputs are."""

    outputs: tuple[float, ...]
    """For each output and each input that is written to, over all inputs; infinite where one is not finite."""
    metric: float | None = None
    """The user's, over all inputs; None without one, or when it failed."""
    metric_failed: str = ""

    @property
    def worst(self) -> float:
        """The greatest of them all."""
        return max(self.outputs, default=0.0)

    def judged(self) -> float:
        """Return what the budget is for: the user's metric where there is one, else the worst output.

        Infinite for a metric that failed, and for outputs that are not finite whatever the metric says.
        """
        if self.metric_failed or not math.isfinite(self.worst):
            return math.inf
        return self.worst if self.metric is None else self.metric


class Examines(Protocol):
    """What finds values and errors of one graph. Every question raises TuneError when it has no answer."""

    def extremes(self) -> dict[Reference, Range]:
        """Return least and greatest value of what every node makes."""

    def ranges(self, values: Iterable[Reference]) -> dict[Reference, Range]:
        """Return the range of each value for int8."""

    def lowering(self, lowering: Lowering) -> Errors:
        """Return the errors of the graph lowered, computed by PyTorch."""

    def plan(self, plan: Plan, seeds: Sequence[int] = SEEDS) -> Errors:
        """Return the errors of a plan as its engines build it, on the inputs of these seeds."""

    def close(self) -> None:
        """Free what was needed."""


class Examiner:
    """A process that examines one graph: started by the first question, again after its end, ended by `close`."""

    def __init__(
        self,
        graph: Graph,
        data: str,
        *,
        num_threads: int,
        limits: Limits,
        metric: str = "",
    ) -> None:
        self._hello: Mapping[str, Any] = {
            "graph": graph.to_json(), "data": data, "num_threads": num_threads, "metric": metric_from_anywhere(metric),
            "memory_bytes": limits.memory_bytes, "folder": str(Path.cwd()),
        }  # fmt: skip
        self._time_s = limits.time_s
        self._process: subprocess.Popen[bytes] | None = None
        self._rest = b""

    def extremes(self) -> dict[Reference, Range]:
        """Return least and greatest value of what every node makes. Raises TuneError when the graph does not run."""
        return _bounds(self._ask({"ask": "extremes"}))

    def ranges(self, values: Iterable[Reference]) -> dict[Reference, Range]:
        """Return the range of each value for int8. Raises TuneError as `extremes` does."""
        return _bounds(self._ask({"ask": "ranges", "values": [*values]}))

    def lowering(self, lowering: Lowering) -> Errors:
        """Return the errors of the graph lowered, computed by PyTorch. Raises TuneError when that does not run."""
        return _errors(self._ask({"ask": "lowering", "lowering": lowering.to_json()}))

    def plan(self, plan: Plan, seeds: Sequence[int] = SEEDS) -> Errors:
        """Return the errors of a plan as its engines build it; the process is new and ended afterwards."""
        self.close()
        try:
            return _errors(self._ask({"ask": "plan", "plan": plan.to_json()}, seeds))
        finally:
            self.close()

    def close(self) -> None:
        """End the process."""
        process, self._process, self._rest = self._process, None, b""
        end_process(process)

    def _ask(self, request: Mapping[str, Any], seeds: Sequence[int] = SEEDS) -> Mapping[str, Any]:
        if self._process is None:
            self._start()
            try:
                self._exchange({**self._hello, "seeds": [*seeds]})
            except TuneError:
                self.close()  # it knows no graph, so that the next question needs another one
                raise
        return self._exchange(request)

    def _start(self) -> None:
        self._process = subprocess.Popen(
            children.command(module="jumar.tune.search.precision.examine"),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=worker_environment(),
            cwd=ROOT, start_new_session=True,  # Ctrl-C is the tuner's to handle
        )  # fmt: skip

    def _exchange(self, message: Mapping[str, Any]) -> Mapping[str, Any]:
        process = self._process
        assert process is not None
        assert process.stdin is not None
        try:
            process.stdin.write(json.dumps(message).encode() + b"\n")
            process.stdin.flush()
            answer = None
            while answer is None:
                answer = answer_in(self._line(process).decode(errors="replace"))
        except (BrokenPipeError, TimeoutError) as error:
            process.kill()
            self.close()
            why = f"it ran past its limit of {self._time_s:g} s" if isinstance(error, TimeoutError) else "it ended"
            raise TuneError(f"the errors of a precision cannot be found: {why}. It is left out.") from error
        if "failed" in answer:
            raise TuneError(f"the errors of a precision cannot be found: {answer['failed']}. It is left out.")
        return answer

    def _line(self, process: subprocess.Popen[bytes]) -> bytes:
        """Return the next line. Raises TimeoutError when none comes in time, BrokenPipeError at the process's end."""
        assert process.stdout is not None
        deadline = time.monotonic() + self._time_s
        while b"\n" not in self._rest:
            ready, _, _ = select.select([process.stdout], [], [], max(0.0, deadline - time.monotonic()))
            if not ready:
                raise TimeoutError
            chunk = os.read(process.stdout.fileno(), 1 << 16)
            if not chunk:
                raise BrokenPipeError
            self._rest += chunk
        line, _, self._rest = self._rest.partition(b"\n")
        return line


def _bounds(answer: Mapping[str, Any]) -> dict[Reference, Range]:
    return {int(value): (float(low), float(high)) for value, low, high in answer["values"]}


def _errors(answer: Mapping[str, Any]) -> Errors:
    metric = answer["metric"]
    return Errors(
        outputs=tuple(float(error) for error in answer["errors"]),
        metric=None if metric is None else float(metric),
        metric_failed=answer["metric_failed"],
    )
