"""Convolutions whose weights oneDNN has packed: what follows them is computed in their kernels."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from jumar.testing.contracts import engine_models
from jumar.tune.engines.base import Site
from jumar.tune.engines.eager import Eager
from jumar.tune.graph.capture import data
from jumar.tune.graph.capture.capture import graph_of_module


class Noted(TorchDispatchMode):
    """Notes which operators run."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.names.append(func._schema.name)
        return func(*args, **(kwargs or {}))


def exported(model: nn.Module, x: torch.Tensor, folder: Path) -> Site:
    graph, constants, example = engine_models.graph_of(model, [x])
    return Site(graph=graph, constants=constants, example=example, folder=folder)


def captured(model: nn.Module, x: torch.Tensor, folder: Path) -> Site:
    made = graph_of_module(model, [x], folder=folder)
    tensors = data.load(made.data)
    constants = {place: tensors[place] for place in made.graph.constants}
    return Site(graph=made.graph, constants=constants, example=[x], folder=folder)


@pytest.mark.parametrize("site_of", [exported, captured])
def test_a_normalisation_and_relu_behind_a_convolution_are_computed_in_its_kernel(site_of: Any, tmp_path: Path) -> None:
    torch.manual_seed(0)
    layers = [nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 4, 1, bias=False), nn.BatchNorm2d(4)]
    model, x = nn.Sequential(*layers).eval(), torch.randn(2, 3, 9, 9)
    for norm in (model[1], model[4]):
        nn.init.normal_(norm.running_mean)
        nn.init.uniform_(norm.weight, 0.5, 1.5)
    function = Eager().build(site_of(model, x, tmp_path), {"prepack": True})
    with torch.no_grad(), Noted() as noted:
        (output,) = function(x)
    with torch.no_grad():
        torch.testing.assert_close(output, model(x), rtol=1e-4, atol=1e-4)
    assert not [name for name in noted.names if "norm" in name or "relu" in name]
    assert sum("convolution" in name for name in noted.names) == 2


def test_a_normalisation_by_the_batchs_own_statistics_stays(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8, track_running_stats=False)).eval()
    x = torch.randn(2, 3, 9, 9)
    (output,) = Eager().build(captured(model, x, tmp_path), {"prepack": True})(x)
    with torch.no_grad():
        torch.testing.assert_close(output, model(x), rtol=1e-4, atol=1e-4)
