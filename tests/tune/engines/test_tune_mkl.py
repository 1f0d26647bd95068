"""Linear layers with weights that MKL has packed."""

from __future__ import annotations

import platform
from dataclasses import replace

import pytest
import torch
from torch import nn
from tune_builders import MACHINE

from jumar.testing.contracts import engine_models
from jumar.tune.engines.eager import MKL, Eager, mkl_may_pay
from jumar.tune.engines.inductor.engine import Inductor
from jumar.tune.model.errors import TuneError

pytestmark = pytest.mark.skipif(
    platform.machine() not in {"x86_64", "AMD64"} or not torch._C.has_mkl, reason="PyTorch has no MKL here"
)


def packed(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    import jumar.tune.engines.shared.prepack  # noqa: F401 - defines the operator

    result: torch.Tensor = torch.ops.jumar_tune.packed_linear(x, weight)
    return result


def test_a_weight_is_packed_once_for_one_number_of_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    from jumar.tune.engines.shared import prepack

    packings = []
    pack = prepack.pack
    monkeypatch.setattr(prepack, "pack", lambda weight, rows: packings.append(rows) or pack(weight, rows))
    weight = torch.randn(24, 16)
    for shape in ((5, 16), (5, 16), (1, 5, 16), (2, 3, 16), (2, 3, 16)):
        x = torch.randn(shape)
        torch.testing.assert_close(packed(x, weight), x @ weight.T)
    assert packings == [5, 6]


def test_inputs_of_other_strides_are_taken() -> None:
    x, weight = torch.randn(16, 7).T, torch.randn(9, 16)
    torch.testing.assert_close(packed(x, weight), x @ weight.T)


def test_it_is_offered_where_linear_layers_outnumber_convolutions() -> None:
    machine = replace(MACHINE, compiler="g++")
    for model, is_offered in (("attention", True), ("convolutions", False)):
        graph = engine_models.captured(model)[0]
        assert mkl_may_pay(graph) is is_offered
        for engine in (Eager(), Inductor()):
            assert any(settings.get("products") == MKL for settings in engine.settings(graph, machine)) is is_offered


def test_without_mkl_the_candidate_fails_in_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    from jumar.tune.engines.shared.prepack import pack

    monkeypatch.setattr(torch._C, "has_mkl", False)
    with pytest.raises(TuneError, match="has no MKL"):
        pack(nn.Linear(4, 4).weight, 2)
