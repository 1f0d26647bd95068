"""A process that says how wrong a graph becomes: it runs the graph, lowered or under a plan, and compares.

    python -m jumar.tune.search.precision.examine

reads one JSON object a line on stdin and answers each with one on stdout. The first says what is examined
(`{"graph", "data", "num_threads", "metric", "folder", "seeds", "memory_bytes"}`) and is answered by `{}`; then

    {"ask": "extremes"}                    {"values": [[value, least, greatest], ...]}
    {"ask": "ranges", "values": [...]}     {"values": [[value, low, high], ...]}
    {"ask": "lowering", "lowering": {}}    {"errors": [...], "metric": 0.1, "metric_failed": ""}
    {"ask": "plan", "plan": {}}            the same, for the plan as engines build it

or `{"failed": "why"}`. Errors are the worst over all inputs, one for each output, then one for each input that the
graph writes to; an infinite one is the string `inf`. The metric sees the outputs only. It is a process of its own
because engines and metrics may do anything.
"""

from __future__ import annotations

import json
import math
import os
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from jumar.tune.engines.base import Site
from jumar.tune.graph import Graph
from jumar.tune.graph.operators import function_of
from jumar.tune.measure.worker.agreement import outputs_of
from jumar.tune.measure.worker.nursery import COPIES_OF_WORK, limit_memory
from jumar.tune.measure.worker.reference import widening_of
from jumar.tune.measure.worker.trial import Case, size_bytes, written_inputs
from jumar.tune.plan import Plan
from jumar.tune.plan.build import build
from jumar.tune.plan.lowering.lowering import Lowering
from jumar.tune.plan.lowering.observe import extremes, lowered_site, observe
from jumar.tune.search.precision.request.error import Metric, errors_of, load_metric, number_of

Answer = dict[str, Any]


class Examination:
    """The graph with its inputs, and its outputs in float64 (float32 where an operator has no float64)."""

    def __init__(self, request: Mapping[str, Any]) -> None:
        """Compute the reference. Raises TuneError for a data file that cannot be read, UsageError for the metric."""
        self._graph = Graph.from_json(request["graph"])
        self._case = Case(self._graph, data=request["data"], seed=request["seeds"][0])
        self._written = written_inputs(self._graph)
        self._num_threads: int = request["num_threads"]
        self._seeds: Sequence[int] = request["seeds"]
        self._metric: Metric | None = load_metric(request["metric"]) if request["metric"] else None
        self._exact = widening_of(self._graph, self._case.constants)(self._case.plain)
        self._sets: list[list[torch.Tensor]] = []
        for number, seed in enumerate(self._seeds):
            self._case.fill(None if number == 0 else seed)
            self._sets.append([tensor.clone() for tensor in self._case.tensors])
        self._references = [self._reference(inputs) for inputs in self._sets]

    def answer(self, request: Mapping[str, Any]) -> Answer:
        """Return the answer to one request."""
        ask = request["ask"]
        if ask in {"extremes", "ranges"}:
            return {"values": [[value, *bounds] for value, bounds in sorted(self._bounds(ask, request).items())]}
        if ask == "lowering":
            site = lowered_site(self._site(Path()), Lowering.from_json(request["lowering"]))
            return self._compare(function_of(site.graph, site.constants))
        with tempfile.TemporaryDirectory(prefix="jumar-precision-") as folder:
            return self._compare(build(Plan.from_json(request["plan"]), self._site(Path(folder))))

    def _bounds(self, ask: str, request: Mapping[str, Any]) -> Mapping[int, tuple[float, float]]:
        graph, constants = self._graph, self._case.constants
        if ask == "ranges":
            return observe(graph, constants, self._sets, request["values"])
        nodes = range(len(graph.inputs), len(graph.inputs) + len(graph.nodes))
        return extremes(graph, constants, self._sets, nodes)

    def _site(self, folder: Path) -> Site:
        return self._case.site(folder, self._num_threads)

    def _reference(self, inputs: Sequence[torch.Tensor]) -> list[Any]:
        """Return the exact outputs, then what is exactly in the inputs that the graph writes to."""
        plain, state = self._ran(self._case.plain, inputs)
        exact = self._exact([tensor.clone() for tensor in inputs], self._written)
        return [*plain, *state] if exact is None else exact

    def _ran(self, function: Callable[..., Any], inputs: Sequence[torch.Tensor]) -> tuple[list[Any], list[Any]]:
        """Return the outputs, and what is then in the inputs that the graph writes to; the given ones stay."""
        copies = [tensor.clone() for tensor in inputs]
        return outputs_of(function(*copies)), [copies[place] for place in self._written]

    def _compare(self, function: Callable[..., Any]) -> Answer:
        worst: list[float] = []
        metrics: list[float] = []
        failed = ""
        for inputs, reference in zip(self._sets, self._references, strict=True):
            outputs, state = self._ran(function, inputs)
            errors = errors_of([*outputs, *state], reference)
            worst = [max(pair) for pair in zip(worst, errors, strict=True)] if worst else errors
            if self._metric is not None and not failed:
                failed = self._measure(self._metric, outputs, reference, metrics)
        metric = max(metrics, default=None)
        return {
            "errors": [*map(_plain, worst)],
            "metric": None if metric is None else _plain(metric),
            "metric_failed": failed,
        }

    @staticmethod
    def _measure(metric: Metric, outputs: list[Any], reference: list[Any], metrics: list[float]) -> str:
        """Add what the metric says to `metrics`; return why it says nothing, empty when it does.

        It gets a reference of its own: what it writes there must not be in what later questions are compared with.
        """
        own = tuple(_narrowed(exact, computed) for computed, exact in zip(outputs, reference, strict=False))
        try:
            said = number_of(metric(tuple(outputs), own))
        except (Exception, SystemExit) as error:  # noqa: BLE001 - the user's code may raise anything; it becomes a finding
            return f"{type(error).__name__}: {error}".splitlines()[0]
        metrics.append(math.inf if math.isnan(said) else said)
        return ""


def _narrowed(exact: Any, computed: Any) -> Any:
    """Return a copy of a reference in the dtype of the output that is compared with it."""
    are_tensors = isinstance(exact, torch.Tensor) and isinstance(computed, torch.Tensor)
    return exact.to(computed.dtype, copy=True) if are_tensors else exact


def _plain(number: float) -> float | str:
    return number if math.isfinite(number) else "inf"


def allowed_bytes(request: Mapping[str, Any]) -> int:
    """Return how much memory an examination may take: the limit, and what the graph's own tensors need, as a trial."""
    return int(request["memory_bytes"]) + COPIES_OF_WORK * size_bytes(Graph.from_json(request["graph"]))


def main() -> int:
    """Serve until stdin is closed."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # whatever an engine or a metric prints must not mix with the answers
    examination: Examination | None = None
    for line in sys.stdin:
        request = json.loads(line)
        try:
            with torch.no_grad():
                if examination is None:
                    torch.set_num_threads(request["num_threads"])
                    limit_memory(allowed_bytes(request))
                    os.chdir(request["folder"])  # the user's; all that is imported besides the metric is there by now
                    examination = Examination(request)
                    answer: Answer = {}
                else:
                    answer = examination.answer(request)
        except Exception as error:  # noqa: BLE001 - the tuner must hear of it, whatever it is
            answer = {"failed": f"{type(error).__name__}: {error}".splitlines()[0][:500]}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
