"""How wrong outputs are, which units a graph has, and which precisions a processor computes in."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from lowering_models import Attention, Residual, graph_of
from torch import nn

from jumar.base.errors import UsageError
from jumar.tune.measure.options import PrecisionOptions, parse_budget
from jumar.tune.search.precision.assign import cost_us, units_of
from jumar.tune.search.precision.request.error import error_of, errors_of, load_metric, metric_from_anywhere, number_of
from jumar.tune.search.precision.ways import arithmetic

INF, NAN = math.inf, math.nan


@pytest.mark.parametrize(
    ("output", "reference", "error"),
    [
        ([1.0, 2.2], [1.0, -2.0], 2.1),
        ([0.5, 0.0], [0.0, 0.0], 0.5),
        ([1.0, INF], [1.0, 2.0], INF),
        ([1.0, NAN], [1.0, 2.0], INF),
        ([1.0, INF], [1.0, INF], 0.0),
        ([1.0, NAN], [2.0, NAN], 0.5),
        ([1.0, -INF], [1.0, INF], INF),
        ([1.0, 2.0], [1.0, INF], INF),
        ([], [], 0.0),
    ],
)
def test_the_error_is_the_greatest_difference_over_the_greatest_value(
    output: list[float], reference: list[float], error: float
) -> None:
    assert error_of(torch.tensor(output), torch.tensor(reference, dtype=torch.float64)) == pytest.approx(error)


def test_other_shapes_missing_outputs_and_integers_have_errors_too() -> None:
    assert error_of(torch.zeros(2), torch.zeros(3)) == INF
    assert error_of(None, None) == 0
    assert error_of(None, torch.zeros(1)) == INF
    assert error_of(torch.tensor([1, 2, 3, 5]), torch.tensor([1, 2, 3, 4])) == 0.25
    assert error_of(torch.tensor([1 + 1j]), torch.tensor([1 + 2j])) == pytest.approx(1 / 5**0.5)
    assert errors_of([torch.zeros(1)], [torch.zeros(1), torch.zeros(1)]) == [INF, INF]


def test_a_metric_is_imported_or_refused() -> None:
    assert load_metric("builtins:max") == max
    for path in ("no_such_module_here:f", "math:no_such", "math:pi"):
        with pytest.raises(UsageError, match="--metric"):
            load_metric(path)


def test_a_metric_may_be_in_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "beside_it.py").write_text("HALF = 0.5\n")
    (tmp_path / "my metric.py").write_text("from beside_it import HALF\ndef half(ours, exact): return HALF\n")
    monkeypatch.chdir(tmp_path)
    path = metric_from_anywhere(PrecisionOptions(metric="my metric.py:half").metric)
    monkeypatch.chdir("/")
    assert load_metric(path)((), ()) == 0.5


@pytest.mark.parametrize(
    ("content", "reason"), [("import sys; sys.exit(3)", "3"), ("x = 1", "no attribute 'f'"), ("1 +", "invalid syntax")]
)
def test_a_file_that_has_no_metric_is_refused_in_one_sentence(tmp_path: Path, content: str, reason: str) -> None:
    (tmp_path / "broken.py").write_text(content)
    with pytest.raises(UsageError, match=reason):
        load_metric(f"{tmp_path / 'broken.py'}:f")


@pytest.mark.parametrize("said", [0.5, torch.tensor(0.5), torch.tensor([0.5]), np.float32(0.5)])
def test_a_metric_says_a_number(said: Any) -> None:
    assert number_of(said) == 0.5
    assert number_of(-1 * said) == 0.5


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (None, "NoneType"),
        ("0.5", "a str"),
        (torch.zeros(2), "Tensor of 2 elements"),
        ((0.5,), "tuple"),
        (1j, "complex"),
    ],
)
def test_what_a_metric_says_otherwise_is_told(said: object, reason: str) -> None:
    with pytest.raises(TypeError, match=f"{reason}.* must return a number"):
        number_of(said)


@pytest.mark.parametrize("fields", [{"budget": 0.0}, {"budget": NAN}, {"metric": "f"}, {"precision": "no_such_file"}])
def test_options_outside_their_range_are_refused(fields: dict[str, object]) -> None:
    with pytest.raises(UsageError):
        PrecisionOptions(**fields)  # type: ignore[arg-type]


def test_a_budget_is_a_number_or_a_percentage() -> None:
    assert [parse_budget(text) for text in ("1e-2", "1%", "0.5")] == [0.01, 0.01, 0.5]
    with pytest.raises(UsageError, match="--budget many"):
        parse_budget("many")


class Chain(nn.Module):
    def __init__(self, depth: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(*(nn.Sequential(nn.Linear(4, 4), nn.ReLU()) for _ in range(depth)))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        made: torch.Tensor = self.layers(x).sum(-1)
        return made


def test_units_are_cut_where_one_value_passes_and_hold_every_node_once() -> None:
    graph, _ = graph_of(Chain(3), torch.randn(2, 4))
    units = units_of(graph)
    first = len(graph.inputs)
    assert [len(unit.nodes) for unit in units] == [2, 2, 3]  # the sum belongs to the last
    assert [value for unit in units for value in unit.nodes] == list(range(first, first + len(graph.nodes)))
    assert sum(unit.share for unit in units) == pytest.approx(1)


def test_a_residual_block_is_one_unit() -> None:
    graph, _ = graph_of(Residual(), torch.randn(2, 3, 8, 8))
    operators = [[graph.nodes[value - len(graph.inputs)].operator for value in unit.nodes] for unit in units_of(graph)]
    assert [names[-1] for names in operators][:2] == ["aten::relu", "aten::mean.dim"]
    assert {"aten::conv2d", "aten::add.Tensor"} <= set(operators[1])


def test_there_are_no_more_units_than_asked_for_and_the_cheapest_are_joined() -> None:
    graph, _ = graph_of(Chain(8), torch.randn(2, 4))
    assert len(units_of(graph, max_units=3)) == 3
    whole = units_of(graph, max_units=1)
    assert len(whole[0].nodes) == len(graph.nodes)


def test_units_of_attention_can_be_parts_of_the_graph() -> None:
    graph, _ = graph_of(nn.Sequential(Attention(), Attention()), torch.randn(2, 6, 16))
    units = units_of(graph)
    assert len(units) > 2
    for unit in units:
        assert graph.part(unit.nodes).graph.nodes


def test_a_graph_without_products_has_no_units() -> None:
    assert units_of(graph_of(nn.ReLU(), torch.randn(3))[0]) == []


def test_a_convolution_of_more_channels_costs_more() -> None:
    costs = []
    for channels in (8, 64):
        graph, _ = graph_of(nn.Conv2d(channels, channels, 3), torch.randn(1, channels, 16, 16))
        costs.append(cost_us(graph, len(graph.inputs)))
    assert costs[1] > 20 * costs[0]


def test_a_processor_says_what_it_computes_in() -> None:
    assert set(arithmetic("flags : fpu avx512f avx512_vnni\n")) == {"bf16", "fp16"}
    assert set(arithmetic("flags : avx512f avx512_bf16 amx_bf16\n")) == {"fp16"}
    assert arithmetic("Features : fphp asimdhp bf16\n") == {}
    assert arithmetic("") == {} or arithmetic("model name: x\n") == {}
