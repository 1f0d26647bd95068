"""Operators called with their defaults, which graphs leave out, are what PyTorch computes in every engine."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn import functional
from tune_builders import MACHINE

from jumar.testing import EngineContract
from jumar.testing.contracts.engine_models import plain
from jumar.tune.engines import Engine, Site
from jumar.tune.engines.onnxruntime.engine import OnnxRuntime
from jumar.tune.engines.openvino.engine import OpenVino
from jumar.tune.graph.capture.capture import graph_of_module
from jumar.tune.graph.capture.data import load
from jumar.tune.model.errors import TuneError


class Defaults(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.GroupNorm(2, 4)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return functional.leaky_relu(x), functional.hardtanh(x), self.norm(x), functional.softplus(x)


class Resized(nn.Module):
    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return tuple(functional.interpolate(x, size, mode="bilinear") for size in ((1, 7), (5, 1), (6, 8)))


class CutOff(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return functional.softplus(x, threshold=5)


def site_of(model: nn.Module, folder: Path, x: torch.Tensor) -> Site:
    captured = graph_of_module(model.eval(), (x,), folder=folder)
    graph, tensors = captured.graph, load(captured.data)
    constants = {place: tensors[place] for place in graph.constants}
    return Site(graph=graph, constants=constants, example=[x], folder=folder)


@pytest.mark.parametrize("engine", [OnnxRuntime(), OpenVino()])
def test_what_is_left_out_is_pytorchs_default(engine: Engine, tmp_path: Path) -> None:
    if engine.unavailable(MACHINE):
        pytest.skip(engine.unavailable(MACHINE))
    site = site_of(Defaults(), tmp_path, torch.linspace(-8, 30, 96).reshape(2, 4, 3, 4))
    with torch.no_grad():
        expected = plain(site.graph, site.constants, list(site.example))
        EngineContract().agree(engine.build(site, {})(*site.example), expected, {})


@pytest.mark.parametrize("engine", [OnnxRuntime(), OpenVino()])
def test_images_are_resized_to_one_row_as_pytorch_does(engine: Engine, tmp_path: Path) -> None:
    if engine.unavailable(MACHINE):
        pytest.skip(engine.unavailable(MACHINE))
    site = site_of(Resized(), tmp_path, torch.linspace(-8, 30, 96).reshape(2, 4, 3, 4))
    with torch.no_grad():
        expected = plain(site.graph, site.constants, list(site.example))
        EngineContract().agree(engine.build(site, {})(*site.example), expected, {})


def test_a_softplus_that_is_cut_off_early_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    pytest.importorskip("onnx")
    with pytest.raises(TuneError, match="softplus"):
        OnnxRuntime().build(site_of(CutOff(), tmp_path, torch.ones(3)), {})
