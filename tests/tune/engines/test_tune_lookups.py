"""Places that a tensor has not: an engine gives what PyTorch gives, or what PyTorch raises is raised."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from tune_builders import MACHINE

from jumar.testing.contracts import engine_models
from jumar.tune.engines import Engine, Site
from jumar.tune.engines.onnxruntime.engine import OnnxRuntime
from jumar.tune.engines.openvino.engine import OpenVino
from jumar.tune.engines.shared.lookups import computed_look_up, look_ups
from jumar.tune.model.errors import TuneError

TABLE = torch.arange(20.0).reshape(4, 5)
Call = Callable[..., torch.Tensor]


class Function(nn.Module):
    def __init__(self, call: Call) -> None:
        super().__init__()
        self.call = call
        self.register_buffer("table", TABLE.clone())

    def forward(self, *given: torch.Tensor) -> torch.Tensor:
        return self.call(self.table, *given) * 2


ONE: dict[str, tuple[Call, int]] = {
    "embedding": (lambda table, i: nn.functional.embedding(i, table), 4),
    "rows": (lambda table, i: table[i], 4),
    "columns": (lambda table, i: table[:, i], 5),
    "both": (lambda table, i: table[i, i], 4),
    "with ones": (lambda table, i: table[i, :2], 4),
    "index_select of rows": (lambda table, i: table.index_select(0, i), 4),
    "index_select of columns": (lambda table, i: table.index_select(-1, i), 5),
    "gather": (lambda table, i: table.gather(1, i.expand(4, -1)), 5),
    "take": (lambda table, i: table.take(i), 20),
    "take_along_dim": (lambda table, i: table.take_along_dim(i.reshape(1, -1).expand(4, -1), 1), 5),
    "a part of the places": (lambda table, i: table[i[1:]], 4),
    "turned places": (lambda table, i: table[i.flip(0).reshape(1, -1)], 4),
    "joined places": (lambda table, i: table[torch.cat([i, i])], 4),
    "32 bits": (lambda table, i: table[i.int()], 4),
}
"""What is looked up, and the length of the dimension."""


def site_of(call: Call, folder: Path, *inputs: torch.Tensor) -> Site:
    graph, constants, example = engine_models.graph_of(Function(call), list(inputs))
    return Site(graph=graph, constants=constants, example=example, folder=folder)


def outcome(run: Call, *inputs: torch.Tensor) -> Any:
    try:
        with torch.no_grad():
            made = run(*inputs)
    except (IndexError, RuntimeError):
        return "raised"
    return (made[0] if isinstance(made, tuple) else made).tolist()


@pytest.mark.parametrize("engine", [OnnxRuntime(), OpenVino()], ids=["onnxruntime", "openvino"])
@pytest.mark.parametrize("name", ONE)
def test_any_place_gives_what_pytorch_gives(engine: Engine, name: str, tmp_path: Path) -> None:
    if engine.unavailable(MACHINE):
        pytest.skip(engine.unavailable(MACHINE))
    call, length = ONE[name]
    site = site_of(call, tmp_path, torch.tensor([0, length - 1, 1]))
    if engine.unsupported(site.graph):
        pytest.skip(engine.unsupported(site.graph))
    try:
        run, plain = engine.build(site, {}), Function(call)
    except TuneError as error:
        pytest.skip(str(error))
    for wrong in (1, length - 1, length, length + 3, -1, -length, -length - 1, 2**31, -(2**33)):
        given = torch.tensor([0, wrong, 1])
        assert outcome(run, given) == outcome(plain, given), f"place {wrong} of {length}"


COMPUTED: dict[str, tuple[Call, bool]] = {
    "the greatest": (lambda table, x: table[x.argmax(-1)], True),
    "the last of a sort": (lambda table, x: table[x.sort(-1).indices[..., -1]], True),
    "the first two": (lambda table, x: table[x.topk(2).indices], True),
    "of a dimension's maximum": (lambda table, x: table[x.max(-1).indices], True),
    "of a longer dimension": (lambda table, x: table[:2][x.argmax(-1)], False),
    "of fractions": (lambda table, x: table[(x * 3).long()], False),
    "of truths": (lambda table, x: table[(x > 0).long()], True),
    "filled in": (lambda table, x: table[x.argmax(-1, keepdim=True).masked_fill(x > 0, 7)], False),
}


@pytest.mark.parametrize("name", COMPUTED)
def test_places_that_the_graph_computes_are_taken_where_they_cannot_be_wrong(name: str, tmp_path: Path) -> None:
    call, is_taken = COMPUTED[name]
    graph = site_of(call, tmp_path, torch.tensor([[0.1, 0.4, 0.3, 0.2]])).graph
    assert list(look_ups(graph))
    assert (not computed_look_up(graph)) is is_taken
    if not is_taken:
        assert computed_look_up(graph) in OpenVino().unsupported(graph)


def test_places_that_are_weights_need_no_look(tmp_path: Path) -> None:
    order = torch.tensor([3, 1])
    graph = site_of(lambda table, x: (table * x)[order], tmp_path, torch.ones(5)).graph
    assert not computed_look_up(graph)
