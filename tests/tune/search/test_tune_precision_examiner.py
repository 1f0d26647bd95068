"""The process that finds errors: real questions, and what becomes of it when engines or metrics misbehave."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from graph_models import Reassigns
from lowering_models import Residual, graph_of

from jumar.tune.graph import Graph
from jumar.tune.graph.capture.capture import graph_of_module
from jumar.tune.graph.capture.data import save
from jumar.tune.measure.worker.messages import Limits
from jumar.tune.model.errors import TuneError
from jumar.tune.plan import Plan, Region
from jumar.tune.plan.engines import ENGINES
from jumar.tune.plan.lowering.lowering import Lowering, LowPrecision
from jumar.tune.plan.lowering.rewrite import effective
from jumar.tune.search.precision.examine import Examination
from jumar.tune.search.precision.examiner import Errors, Examiner


def share_of_wrong_classes(outputs: tuple[torch.Tensor, ...], reference: tuple[torch.Tensor, ...]) -> float:
    return float((outputs[0].argmax(-1) != reference[0].argmax(-1)).double().mean())


def no_number(outputs: tuple[torch.Tensor, ...], reference: tuple[torch.Tensor, ...]) -> float:
    return math.nan


def below_zero(outputs: tuple[torch.Tensor, ...], reference: tuple[torch.Tensor, ...]) -> float:
    return -float((outputs[0].argmax(-1) == reference[0].argmax(-1)).double().mean())


def writing(outputs: tuple[torch.Tensor, ...], reference: tuple[torch.Tensor, ...]) -> float:
    return float(reference[0].sub_(outputs[0]).abs_().max())


def ending(outputs: tuple[torch.Tensor, ...], reference: tuple[torch.Tensor, ...]) -> float:
    os._exit(3)


def slow(outputs: tuple[torch.Tensor, ...], reference: tuple[torch.Tensor, ...]) -> float:
    time.sleep(60)
    return 0.0


@pytest.fixture
def model(tmp_path: Path) -> tuple[Graph, str]:
    torch.manual_seed(0)
    x = torch.randn(2, 3, 8, 8)
    graph, weights = graph_of(Residual(), x)
    save(tmp_path / "data.pt", weights | {graph.variables[0]: x})
    return graph, str(tmp_path / "data.pt")


def examiner_of(model: tuple[Graph, str], metric: str = "", time_s: float = 120.0) -> Examiner:
    path = f"{__name__}:{metric}" if metric else ""
    return Examiner(*model, num_threads=1, limits=Limits(time_s=time_s), metric=path)


@pytest.fixture
def examiner(model: tuple[Graph, str]) -> Iterator[Examiner]:
    made = examiner_of(model, "share_of_wrong_classes")
    yield made
    made.close()


def test_one_process_answers_every_question(model: tuple[Graph, str], examiner: Examiner) -> None:
    graph, _ = model
    nodes = range(len(graph.inputs), len(graph.inputs) + len(graph.nodes))
    low = Lowering(nodes=effective(graph, Lowering(nodes=dict.fromkeys(nodes, "bf16"))))
    whole = examiner.extremes()
    assert set(whole) == set(nodes)
    variable = graph.variables[0]
    assert examiner.ranges([variable]).keys() == {variable}
    exact, rounded = examiner.lowering(Lowering()), examiner.lowering(low)
    assert exact.worst < 1e-5 < rounded.worst < 1e-1
    assert exact.metric == 0
    eager = Plan(regions=(Region(nodes=(), engine="eager", version=ENGINES[0].version()),), lowering=low)
    assert examiner.plan(eager).worst == pytest.approx(rounded.worst, rel=0.5)
    assert examiner.plan(eager, (0, 1001, 1002)).worst != examiner.plan(eager).worst
    with pytest.raises(TuneError, match="no_such_engine"):
        examiner.plan(Plan(regions=(Region(nodes=(), engine="no_such_engine"),)))
    assert examiner.lowering(Lowering()) == exact


def test_what_a_graph_writes_is_judged_like_an_output(tmp_path: Path) -> None:
    torch.manual_seed(0)
    captured = graph_of_module(Reassigns().eval(), (torch.randn(1, 4),), folder=tmp_path, name="state")
    graph = captured.graph
    nodes: dict[int, LowPrecision] = {len(graph.inputs) + place: "bf16" for place in range(len(graph.nodes))}
    hello = {"graph": graph.to_json(), "data": str(captured.data), "num_threads": 1, "metric": "", "seeds": [0, 1]}
    with torch.no_grad():
        answer = Examination(hello).answer({"ask": "lowering", "lowering": Lowering(nodes=nodes).to_json()})
    output, state = answer["errors"]
    assert output == state > 1e-4


def test_a_metric_that_is_no_number_is_an_infinite_error(model: tuple[Graph, str]) -> None:
    graph, data = model
    hello = {"graph": graph.to_json(), "data": data, "num_threads": 1, "metric": f"{__name__}:no_number", "seeds": [0]}
    with torch.no_grad():
        answer = Examination(hello).answer({"ask": "lowering", "lowering": {}})
    assert answer["metric"] == "inf"


def test_an_accuracy_with_a_minus_is_not_within_every_budget(model: tuple[Graph, str]) -> None:
    graph, data = model
    hello = {"graph": graph.to_json(), "data": data, "num_threads": 1, "seeds": [0]}
    with torch.no_grad():
        examination = Examination({**hello, "metric": f"{__name__}:below_zero"})
        answer = examination.answer({"ask": "lowering", "lowering": {}})
    assert answer["metric"] == 1


def test_a_metric_that_writes_to_its_reference_writes_to_its_own(tmp_path: Path) -> None:
    x = torch.randn(3, 4, dtype=torch.float64)
    captured = graph_of_module(torch.nn.Linear(4, 4).double().eval(), (x,), folder=tmp_path, name="wide")
    hello = {"graph": captured.graph.to_json(), "data": str(captured.data), "num_threads": 1, "seeds": [0]}
    with torch.no_grad():
        examination = Examination({**hello, "metric": f"{__name__}:writing"})
        answers = [examination.answer({"ask": "lowering", "lowering": {}}) for _ in range(2)]
    assert all(answer["errors"][0] < 1e-12 for answer in answers)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("metric", "time_s", "says"), [("ending", 120.0, "it ended"), ("slow", 20.0, "past its limit")]
)
def test_a_process_that_ends_or_hangs_costs_the_answer_only(
    model: tuple[Graph, str], metric: str, time_s: float, says: str
) -> None:
    examiner = examiner_of(model, metric, time_s)
    with pytest.raises(TuneError, match=says):
        examiner.lowering(Lowering())
    assert examiner.extremes()
    examiner.close()


def test_a_process_that_does_not_come_up_says_why_each_time(model: tuple[Graph, str]) -> None:
    examiner = Examiner(model[0], "absent.pt", num_threads=1, limits=Limits())
    for _ in range(2):
        with pytest.raises(TuneError, match=r"absent\.pt"):
            examiner.lowering(Lowering())
    examiner.close()


def test_what_a_sitecustomize_prints_is_no_answer(
    model: tuple[Graph, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sitecustomize.py").write_text("print('Welcome!')\nprint('loaded: ', end='')\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    examiner = examiner_of(model)
    assert examiner.extremes()
    examiner.close()


def test_what_the_budget_is_for() -> None:
    assert Errors(outputs=(0.1, 0.2)).judged() == 0.2
    assert Errors(outputs=(0.1, 0.2), metric=0.01).judged() == 0.01
    assert Errors(outputs=(0.1, math.inf), metric=0.01).judged() == math.inf
    assert Errors(outputs=(0.1,), metric_failed="it raised").judged() == math.inf


@pytest.mark.slow
def test_a_model_greater_than_the_limit_of_memory_is_examined(tmp_path: Path) -> None:
    x = torch.randn(1, 6000)
    graph, weights = graph_of(torch.nn.Linear(6000, 6000), x)
    save(tmp_path / "data.pt", weights | {graph.variables[0]: x})
    limits = Limits(memory_bytes=2**27)
    examiner = Examiner(graph, str(tmp_path / "data.pt"), num_threads=1, limits=limits)
    try:
        assert examiner.lowering(Lowering()).worst < 1e-5
    finally:
        examiner.close()
