"""The search for precision, on measurements that are made up: real graphs, real errors, invented times."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from lowering_models import Exchanged, graph_of
from torch import nn
from tune_builders import ONE_THREAD

from jumar.base.errors import InputError, UsageError
from jumar.tune.engines.base import Engine, GraphFunction, Precision, Settings, Site
from jumar.tune.graph import Graph
from jumar.tune.graph.capture.capture import graph_of_module
from jumar.tune.graph.capture.data import load, save
from jumar.tune.measure.measuring import OutOfBudget
from jumar.tune.measure.options import AUTO, PrecisionOptions, TuneOptions
from jumar.tune.measure.worker.messages import Outcome, Trial
from jumar.tune.model.errors import TuneError
from jumar.tune.model.gate import gain_of
from jumar.tune.model.machine import Machine
from jumar.tune.plan import Plan, Region
from jumar.tune.plan.lowering.lowering import Lowering, LowPrecision, Range
from jumar.tune.plan.lowering.observe import lowered_site, run_watched
from jumar.tune.search.precision import search, ways
from jumar.tune.search.precision.examine import Examination
from jumar.tune.search.precision.examiner import SEEDS, Errors, _bounds, _errors
from jumar.tune.search.precision.outcome import Point, PrecisionOutcome
from jumar.tune.search.precision.request.error import errors_of
from jumar.tune.search.precision.request.files import write_files
from jumar.tune.search.precision.search import tune_precision


class Deep(nn.Module):
    """Six layers, of which the last but one is sensitive: few steps between its greatest and its usual values."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        layers = [nn.Linear(16, 16) for _ in range(6)]
        with torch.no_grad():
            for layer in layers:
                layer.weight.copy_(torch.eye(16) + 0.02 * torch.randn(16, 16))
        self.layers = nn.ModuleList(layers)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for place, layer in enumerate(self.layers):
            x = layer(x)
            if place == 3:
                x = x * x * x
        return x


class Casting(Engine):
    """Takes every precision written into the graph; never built here."""

    name = "openvino"

    def version(self) -> str:
        return "1"

    def settings(self, graph: Graph, machine: Machine, precision: Precision = "fp32") -> Sequence[Settings]:
        return [{}] if precision == "fp32" else []

    def build(self, site: Site, settings: Settings) -> GraphFunction:
        raise NotImplementedError

    def load(self, site: Site, settings: Settings) -> GraphFunction:
        raise NotImplementedError


class Setting(Casting):
    """Has a setting for bf16, which it takes for a whole region."""

    name = "by_setting"

    def settings(self, graph: Graph, machine: Machine, precision: Precision = "fp32") -> Sequence[Settings]:
        return [{"precision": precision}] if precision in {"fp32", "bf16"} else []


class MadeUp:
    """Each lowered product takes half of its time, less in int8; errors are those of PyTorch's own run."""

    def __init__(self, graph: Graph, weights: dict[int, torch.Tensor], *inputs: torch.Tensor) -> None:
        self.site = Site(graph=graph, constants=weights, example=inputs, folder=Path())
        self.factor = 1.0
        self.trials: list[Trial] = []
        self.seeds: list[Sequence[int]] = []
        self.reserved_s: list[float] = []
        self.limit = math.inf
        self.limits_s: list[float | None] = []
        self.hangs = 0

    def prepare(
        self, trials: Sequence[Trial], reserve_s: float = 0.0, limit_s: float | None = None, full_s: float | None = None
    ) -> None:
        """Nothing is compiled."""

    def screen(
        self, trial: Trial, reserve_s: float = 0.0, limit_s: float | None = None, full_s: float | None = None
    ) -> Outcome:
        self.reserved_s.append(reserve_s)
        self.limits_s.append(limit_s)
        if len(self.trials) >= self.limit:
            raise OutOfBudget("--trials")
        if self.hangs:
            self.hangs -= 1
            return Outcome(status="unfinished", phase="candidate", detail="it hangs")
        return self.confirm(trial)

    def confirm(self, trial: Trial, limit_s: float | None = None) -> Outcome:
        self.trials.append(trial)
        lowering = self.lowering(Plan.of(trial.candidate[0]))
        speed = {"int8": 4.0, "bf16": 2.0, "fp16": 2.0}
        first = len(self.site.graph.inputs)
        linear = [first + place for place, node in enumerate(self.site.graph.nodes) if node.operator == "aten::linear"]
        spent = sum(1 / speed[lowering.nodes[value]] if value in lowering.nodes else 1.0 for value in linear)
        error = self.factor * self.error(lowering)
        gain = gain_of([100.0] * 15, [100.0 * spent / len(linear)] * 15)
        if error > 1:
            return Outcome(status="disagrees", phase="candidate", detail="too wrong", worst_error=error)
        return Outcome(status="measured", phase="measure", gain=gain, worst_error=error, allowed_error=1.0)

    def lowering(self, plan: Plan) -> Lowering:
        nodes = dict(plan.lowering.nodes)
        first = len(self.site.graph.inputs)
        for region in plan.regions:
            if region.settings.get("precision") == "bf16":
                nodes |= dict.fromkeys(region.nodes or range(first, first + len(self.site.graph.nodes)), "bf16")
        return replace(plan.lowering, nodes=nodes)

    def error(self, lowering: Lowering) -> float:
        low = lowered_site(self.site, lowering)
        exact = run_watched(self.site.graph, self.site.constants, self.site.example, {})
        return errors_of(run_watched(low.graph, low.constants, self.site.example, {}), exact)[0]

    def elapsed_s(self) -> float:
        return float(len(self.trials))


class InProcess:
    """Examines in this process; a plan is what its lowering computes."""

    def __init__(self, graph: Graph, data: str, measures: MadeUp, metric: str) -> None:
        hello = {"graph": graph.to_json(), "data": data, "num_threads": 1, "metric": metric, "seeds": [0]}
        self._hello: Mapping[str, Any] = hello
        self._measures = measures
        self._examination: Examination | None = None

    def extremes(self) -> dict[int, Range]:
        return _bounds(self._ask(ask="extremes"))

    def ranges(self, values: Iterable[int]) -> dict[int, Range]:
        return _bounds(self._ask(ask="ranges", values=list(values)))

    def lowering(self, lowering: Lowering) -> Errors:
        return _errors(self._ask(ask="lowering", lowering=lowering.to_json()))

    def plan(self, plan: Plan, seeds: Sequence[int] = SEEDS) -> Errors:
        self._measures.seeds.append(seeds)
        return self.lowering(self._measures.lowering(plan))

    def close(self) -> None:
        self._examination = None

    def _ask(self, **request: object) -> Mapping[str, Any]:
        try:
            with torch.no_grad():
                self._examination = self._examination or Examination(self._hello)
                return self._examination.answer(request)
        except UsageError as error:
            raise TuneError(str(error)) from error


@pytest.fixture
def model(tmp_path: Path) -> tuple[Graph, str, MadeUp]:
    x = torch.randn(4, 16, generator=torch.Generator().manual_seed(1))
    graph, weights = graph_of(Deep(), x)
    data = tmp_path / "data.pt"
    save(data, weights | {graph.variables[0]: x})
    return graph, str(data), MadeUp(graph, weights, x)


def tuned(
    model: tuple[Graph, str, MadeUp],
    budget: float,
    *,
    engines: Sequence[Engine] = (Casting(),),
    options: TuneOptions | None = None,
    deadline_s: float | None = None,
    reference: Plan | None = None,
    **fields: str,
) -> PrecisionOutcome:
    graph, data, measures = model
    options = options or TuneOptions(job_type=1)
    outcome = PrecisionOutcome(name="deep", budget=budget, metric=fields.get("metric", ""), min_gain=options.min_gain)
    tune_precision(
        graph, data, outcome=outcome, reference=reference, machine=ONE_THREAD, options=options,
        precision=PrecisionOptions(precision=fields.pop("precision", AUTO), budget=budget, **fields),
        measures=measures, engines=engines,
        examiner=InProcess(graph, data, measures, fields.get("metric", "")), deadline_s=deadline_s,
    )  # fmt: skip
    return outcome


def whole_errors(model: tuple[Graph, str, MadeUp]) -> list[float]:
    """Return the errors of everything in bf16 and everything in int8, which are what is measured first."""
    return [point.error for point in tuned(model, 1e-9).points[:2]]


@pytest.fixture(autouse=True)
def processor(monkeypatch: pytest.MonkeyPatch) -> None:
    """One with bf16 and without fp16, which would be as fast here and more exact."""
    monkeypatch.setattr(search, "arithmetic", lambda: {"fp16": "no fp16"})


def test_the_fastest_precision_is_chosen_where_the_budget_allows_it(model: tuple[Graph, str, MadeUp]) -> None:
    outcome = tuned(model, 0.5)
    assert outcome.chosen is not None
    assert set(outcome.chosen.lowering.nodes.values()) == {"int8"}
    assert outcome.chosen.gain.ratio == pytest.approx(4)
    assert outcome.chosen.is_confirmed
    assert outcome.chosen in outcome.front()


def test_between_two_precisions_a_mixture_is_chosen_and_everything_on_the_front_was_measured(
    model: tuple[Graph, str, MadeUp],
) -> None:
    low, high = whole_errors(model)
    budget = math.sqrt(low * high)
    outcome = tuned(model, budget)
    assert outcome.chosen is not None
    assert outcome.chosen.error <= budget
    assert set(outcome.chosen.lowering.nodes.values()) == {"bf16", "int8"}
    assert outcome.chosen.gain.ratio > 2
    measured = {str(Plan.of(trial.candidate[0]).to_json()) for trial in model[2].trials}
    assert all(str(point.plan.to_json()) in measured for point in outcome.front() if not point.is_reference)


def test_nothing_is_chosen_where_nothing_is_within_the_budget(model: tuple[Graph, str, MadeUp]) -> None:
    outcome = tuned(model, 1e-9)
    assert outcome.chosen is None
    assert outcome.front()[0].is_reference
    most_exact = outcome.most_exact()
    assert most_exact is not None
    assert most_exact.error > 1e-9


def test_an_engine_that_errs_more_than_simulated_gets_a_smaller_target(model: tuple[Graph, str, MadeUp]) -> None:
    low, high = whole_errors(model)
    model[2].factor = 3.0
    budget = 3 * math.sqrt(low * high)
    outcome = tuned(model, budget)
    assert outcome.chosen is not None
    assert outcome.chosen.error <= budget
    assert len(set(outcome.chosen.lowering.nodes.values())) == 2


def test_an_engine_with_a_setting_gets_regions_of_it(model: tuple[Graph, str, MadeUp]) -> None:
    error = next(point.error for point in tuned(model, 1e-9, engines=[Setting()]).points if not point.is_reference)
    outcome = tuned(model, error / 2, engines=[Setting()])
    assert outcome.chosen is not None
    settings = {region.settings["precision"] for region in outcome.chosen.plan.regions}
    assert settings == {"bf16", "fp32"}
    assert not outcome.chosen.plan.lowering
    covered = sorted(value for region in outcome.chosen.plan.regions for value in region.nodes)
    assert covered == list(range(len(model[0].inputs), len(model[0].inputs) + len(model[0].nodes)))


@pytest.mark.parametrize(("memory", "num_calls"), [("keep", 1), ("default", 0)])
def test_of_sides_that_keep_memory_and_do_not_the_first_call_after_each_change_is_not_timed(
    model: tuple[Graph, str, MadeUp], memory: str, num_calls: int
) -> None:
    reference = Plan(regions=(Region(nodes=(), engine="openvino", version="1"),), memory=memory)
    tuned(model, 0.5, reference=reference)
    assert {trial.effort.settling_calls for trial in model[2].trials} == {num_calls}
    assert all(Plan.of(trial.incumbent[0]) == reference for trial in model[2].trials)


def test_a_run_that_is_stopped_chooses_among_what_was_measured(model: tuple[Graph, str, MadeUp]) -> None:
    model[2].limit = 1
    outcome = tuned(model, 0.5)
    assert outcome.stopped_by == "--trials"
    assert outcome.chosen is not None


def test_time_for_the_confirmation_is_kept_back_by_what_screenings_took(model: tuple[Graph, str, MadeUp]) -> None:
    tuned(model, 0.5)
    reserved_s = model[2].reserved_s
    assert reserved_s[0] == 0
    assert set(reserved_s[1:]) == {2.0}
    reserved_s.clear()
    tuned(model, 0.5, options=TuneOptions(job_type=1, time_budget_s=100), deadline_s=60)
    assert set(reserved_s[1:]) == {42.0}


def test_a_plan_that_hangs_leaves_time_for_the_others_and_the_next_run(model: tuple[Graph, str, MadeUp]) -> None:
    model[2].hangs = 1
    outcome = tuned(model, 0.5, options=TuneOptions(job_type=1, time_budget_s=100), deadline_s=100)
    assert model[2].limits_s[0] == 70.0
    assert model[2].reserved_s[:2] == [0.0, 0.0], "what hangs does not tell how long a confirmation takes"
    assert [one.status for one in outcome.lost] == ["unfinished"]
    assert outcome.chosen is not None
    assert outcome.stopped_by == "--time-budget"
    tuned(model, 0.5)
    assert model[2].limits_s[-1] == 120.0


def test_simulation_ends_with_the_time_and_what_was_measured_is_confirmed(model: tuple[Graph, str, MadeUp]) -> None:
    outcome = tuned(model, whole_errors(model)[0] * 1.01, deadline_s=model[2].elapsed_s() + 3.5)
    assert outcome.stopped_by == "--time-budget"
    assert outcome.num_simulated == 0
    assert outcome.chosen is not None
    assert set(outcome.chosen.lowering.nodes.values()) == {"bf16"}


def doubled(outputs: tuple[torch.Tensor, ...], reference: tuple[torch.Tensor, ...]) -> float:
    raise ValueError("the metric of the test raises")


def no_number(outputs: tuple[torch.Tensor, ...], reference: tuple[torch.Tensor, ...]) -> float:
    return float("nan")


def greatest(outputs: tuple[torch.Tensor, ...], reference: tuple[torch.Tensor, ...]) -> float:
    return float((outputs[0] - reference[0]).abs().max() / reference[0].abs().max())


def likeness(outputs: tuple[torch.Tensor, ...], reference: tuple[torch.Tensor, ...]) -> float:
    return float(torch.cosine_similarity(outputs[0].flatten(), reference[0].flatten(), dim=0))


def test_a_metric_that_is_1_of_what_is_right_is_refused_at_once(model: tuple[Graph, str, MadeUp]) -> None:
    outcome = tuned(model, 0.5, metric=f"{__name__}:likeness")
    assert outcome.metric_failed == (
        "it says 1 of the model in its own precision, where 0 is no error and 0.5 is allowed"
    )
    assert outcome.points == []


def test_a_metric_judges_other_inputs_when_a_point_is_confirmed(model: tuple[Graph, str, MadeUp]) -> None:
    outcome = tuned(model, 0.5, metric=f"{__name__}:greatest")
    assert outcome.chosen is not None
    *screened, confirmed = model[2].seeds
    assert set(screened) == {SEEDS}
    assert confirmed[0] == SEEDS[0]
    assert not set(confirmed[1:]) & set(SEEDS)


def test_what_a_graph_writes_is_no_matter_of_a_metric_and_that_is_said(tmp_path: Path) -> None:
    captured = graph_of_module(Exchanged().eval(), (torch.randn(2, 3),), folder=tmp_path, name="swaps")
    graph, values = captured.graph, load(captured.data)
    weights = {place: values[place] for place in graph.constants}
    measures = MadeUp(graph, weights, *(values[place] for place in graph.variables))
    outcome = tuned((graph, str(captured.data), measures), 0.5, metric=f"{__name__}:greatest")
    assert outcome.chosen is not None
    assert len(outcome.chosen.errors) == 3
    assert "writes into 2 of its inputs" in outcome.notes[-1]


def test_a_metric_that_is_no_number_of_the_model_itself_is_said_at_once(model: tuple[Graph, str, MadeUp]) -> None:
    outcome = tuned(model, 0.5, metric=f"{__name__}:no_number")
    assert outcome.chosen is None
    assert "no finite number" in outcome.metric_failed


def test_a_metric_that_raises_chooses_nothing_and_says_so(model: tuple[Graph, str, MadeUp]) -> None:
    outcome = tuned(model, 0.5, metric=f"{__name__}:doubled")
    assert outcome.chosen is None
    assert "the metric of the test raises" in outcome.metric_failed


def test_a_metric_that_is_not_there_is_a_failure_in_one_sentence(model: tuple[Graph, str, MadeUp]) -> None:
    assert "--metric no_module_here:f" in tuned(model, 0.5, metric="no_module_here:f").failure


def test_a_precision_file_is_applied_to_the_same_graph(model: tuple[Graph, str, MadeUp], tmp_path: Path) -> None:
    first = tuned(model, 0.5)
    assert first.chosen is not None
    ini, mix, own = write_files(model[0], first.chosen, tmp_path, "deep")
    for path in (ini, mix, own):
        outcome = tuned(model, 0.5, precision=str(path))
        assert outcome.chosen is not None
        assert outcome.chosen.lowering.nodes == first.chosen.lowering.nodes


@pytest.mark.parametrize("share", [2.0, 0.5])
def test_an_engine_with_a_setting_takes_it_from_a_precision_file(
    model: tuple[Graph, str, MadeUp], tmp_path: Path, share: float
) -> None:
    whole = next(point.error for point in tuned(model, 1e-9, engines=[Setting()]).points if not point.is_reference)
    first = tuned(model, whole * share, engines=[Setting()])
    assert first.chosen is not None
    ini, _, own = write_files(model[0], first.chosen, tmp_path, "deep")
    for path in (ini, own):
        again = tuned(model, whole * share, engines=[Setting()], precision=str(path))
        assert again.chosen is not None
        assert again.chosen.plan == first.chosen.plan
        assert again.chosen.lowering == first.chosen.lowering


def test_a_setting_is_not_given_for_more_than_a_file_names(model: tuple[Graph, str, MadeUp], tmp_path: Path) -> None:
    path = tmp_path / "one.ini"
    path.write_text("[ByNodeName]\nlinear_0=high_performance\nmul_0=high_performance\n")
    outcome = tuned(model, 0.5, engines=[Setting()], precision=str(path))
    (point,) = (point for point in outcome.points if not point.is_reference)
    low = [region.nodes for region in point.plan.regions if region.settings["precision"] == "bf16"]
    assert low == [(len(model[0].inputs),)]


def test_a_file_that_names_nothing_of_the_graph_says_so(model: tuple[Graph, str, MadeUp], tmp_path: Path) -> None:
    path = tmp_path / "none.ini"
    path.write_text("Conv2D=high_performance\n")
    outcome = tuned(model, 0.5, precision=str(path))
    assert outcome.points == []
    assert "names no operator" in outcome.notes[0]
    assert outcome.unmeasured == outcome.notes[0]
    path.write_text("Conv2D=quick\n")
    with pytest.raises(InputError, match=r"none\.ini:1"):
        tuned(model, 0.5, precision=str(path))


def test_a_file_of_another_model_says_that_it_names_nothing(model: tuple[Graph, str, MadeUp], tmp_path: Path) -> None:
    x = torch.randn(2, 3, 8, 8)
    graph, _ = graph_of(nn.Conv2d(3, 4, 3), x)
    nodes: dict[int, LowPrecision] = {len(graph.inputs): "bf16"}
    plan = Plan(regions=(Region(nodes=(), engine="openvino", version="1"),), lowering=Lowering(nodes=nodes))
    point = Point(plan=plan, gain=gain_of([2.0] * 9, [1.0] * 9), error=0.0, lowering=plan.lowering)
    *_, own = write_files(graph, point, tmp_path, "other")
    outcome = tuned(model, 0.5, precision=str(own))
    assert outcome.points == []
    assert "names no operator" in outcome.unmeasured


def test_a_model_of_fewer_bits_already_is_not_measured_as_if_it_were_lowered(tmp_path: Path) -> None:
    x = torch.randn(4, 16).to(torch.bfloat16)
    graph, weights = graph_of(Deep().to(torch.bfloat16), x)
    save(tmp_path / "data.pt", weights | {graph.variables[0]: x})
    outcome = tuned((graph, str(tmp_path / "data.pt"), MadeUp(graph, weights, x)), 0.5)
    assert outcome.points == []
    assert "is of float32" in outcome.unmeasured


def test_a_processor_without_arithmetic_is_not_asked_for_it(
    model: tuple[Graph, str, MadeUp], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "arithmetic", lambda: ways.arithmetic("flags : avx512f\n"))
    outcome = tuned(model, 0.5)
    assert {name for point in outcome.points for name in point.lowering.nodes.values()} == {"int8"}
    assert set(outcome.missing) == {"bf16", "fp16"}


def test_values_beyond_fp16_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "arithmetic", lambda: {})

    class Great(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            made: torch.Tensor = self.second(self.first(x) * 1000 * 60000) * 1e-6
            return made

    torch.manual_seed(0)
    x = torch.randn(2, 4)
    graph, weights = graph_of(Great(), x)
    save(tmp_path / "great.pt", weights | {graph.variables[0]: x})
    outcome = tuned((graph, str(tmp_path / "great.pt"), MadeUp(graph, weights, x)), 0.5)
    assert [one.name for one in outcome.overflows] == ["mul_1", "linear_1", "mul_2"]
    assert all("fp16" not in point.lowering.nodes.values() or point.error <= 1 for point in outcome.points)
    assert outcome.to_json()["overflows"][0]["greatest"] > 65504
