"""Average pools of every setting are PyTorch's in each engine that takes them."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn
from tune_builders import MACHINE

from jumar.testing.contracts import engine_models
from jumar.tune.engines import Engine, Site
from jumar.tune.engines.onnxruntime.engine import OnnxRuntime
from jumar.tune.engines.openvino.engine import OpenVino

SETTINGS = [
    {"kernel_size": 3, "stride": 2, "padding": padding, "ceil_mode": ceil, "count_include_pad": counts}
    for padding in (0, 1)
    for ceil in (False, True)
    for counts in (False, True)
]
SETTINGS += [
    {"kernel_size": 2, "stride": 2, "ceil_mode": True},  # the shortcut of EfficientNet's and ResNet-D's blocks
    {"kernel_size": 2, "stride": 2, "ceil_mode": True, "count_include_pad": False},
    {"kernel_size": 2, "stride": 3, "ceil_mode": True},
    {"kernel_size": 3, "stride": 2, "divisor_override": 2},
    {"kernel_size": 3, "stride": 2, "padding": 1, "ceil_mode": True, "divisor_override": 5},
]


@pytest.mark.parametrize("engine", [OnnxRuntime(), OpenVino()], ids=["onnxruntime", "openvino"])
@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_an_average_pool_is_pytorchs(engine: Engine, settings: dict[str, int], tmp_path: Path) -> None:
    if engine.unavailable(MACHINE):
        pytest.skip(engine.unavailable(MACHINE))
    for number, shape in enumerate([(2, 3, 7, 6), (1, 2, 8, 5), (2, 9, 4)]):
        pool = nn.AvgPool2d(**settings)
        x = torch.randn(shape, generator=torch.Generator().manual_seed(number))
        graph, constants, example = engine_models.graph_of(pool, [x])
        site = Site(graph=graph, constants=constants, example=example, folder=tmp_path / str(number))
        site.folder.mkdir()
        assert not engine.unsupported(graph)
        (found,) = engine.build(site, {})(x)
        torch.testing.assert_close(found, pool(x))
