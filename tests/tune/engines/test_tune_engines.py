"""Every engine keeps the contract."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import nn
from tune_builders import MACHINE, needs_openvino

from jumar.testing import EngineContract
from jumar.testing.contracts import engine_models
from jumar.tune.engines import Engine, Site
from jumar.tune.engines.eager import Eager
from jumar.tune.engines.inductor.engine import Inductor
from jumar.tune.engines.onnxruntime.engine import OnnxRuntime
from jumar.tune.engines.openvino.engine import OpenVino
from jumar.tune.engines.shared.sessions import one_a_call
from jumar.tune.model.errors import TuneError
from jumar.tune.model.machine import compiler_version
from jumar.tune.plan.engines import ENGINES

ONE = replace(MACHINE, num_threads=1, compiler="g++")


class TestEager(EngineContract):
    engine = Eager()


class TestOnnxRuntime(EngineContract):
    engine = OnnxRuntime()


class TestOpenVino(EngineContract):
    engine = OpenVino()


@pytest.mark.slow
@pytest.mark.skipif(not compiler_version(), reason="TorchInductor needs a C++ compiler")
@pytest.mark.filterwarnings("ignore")  # TorchInductor's own imports and exports warn
class TestInductor(EngineContract):
    models = ("borders",)
    engine = Inductor()


def test_every_engine_has_a_name_of_its_own() -> None:
    names = [engine.name for engine in ENGINES]
    assert len(set(names)) == len(names)


def test_an_engine_that_is_missing_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jumar.tune.engines.shared.refusals.find_spec", lambda name: None)
    for engine in (OnnxRuntime(), OpenVino()):
        assert "pip install" in engine.unavailable(MACHINE)
    assert "install g++" in Inductor().unavailable(MACHINE)


def test_engines_of_the_cpu_are_not_offered_for_other_devices() -> None:
    assert all("cuda" in engine.unavailable(replace(MACHINE, device="cuda")) for engine in (OnnxRuntime(), OpenVino()))


class Doubled(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2


class Looked(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(5, 3)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.words(ids) * 2


class IsGreater(nn.Module):
    def forward(self, numbers: torch.Tensor) -> torch.Tensor:
        return (numbers > 2**24).float()


def site_of(model: nn.Module, folder: Path, *inputs: torch.Tensor) -> Site:
    graph, constants, example = engine_models.graph_of(model, list(inputs))
    return Site(graph=graph, constants=constants, example=example, folder=folder)


def test_openvino_refuses_integers_that_it_would_compute_in_fewer_bits(tmp_path: Path) -> None:
    site = site_of(Doubled(), tmp_path, torch.arange(4))
    assert "32 bits" in OpenVino().unsupported(site.graph)


class Marked(nn.Module):
    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number

    def forward(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return ids[:, 1:].masked_fill(mask, self.number)


@pytest.mark.parametrize(("number", "is_taken"), [(-100, True), (-(2**31), True), (2**31, False), (-(2**63), False)])
def test_openvino_refuses_a_number_of_the_graph_that_32_bits_do_not_hold(
    tmp_path: Path, number: int, is_taken: bool
) -> None:
    site = site_of(Marked(number), tmp_path, torch.ones(2, 4, dtype=torch.int64), torch.zeros(2, 3, dtype=torch.bool))
    assert ("32 bits" not in OpenVino().unsupported(site.graph)) is is_taken
    assert not OnnxRuntime().unsupported(site.graph)


def test_openvino_refuses_float64(tmp_path: Path) -> None:
    site = site_of(Doubled(), tmp_path, torch.ones(4, dtype=torch.float64))
    assert "float64" in OpenVino().unsupported(site.graph)


def test_integers_beyond_what_openvino_holds_are_computed_by_pytorch(tmp_path: Path) -> None:
    needs_openvino()
    site = site_of(IsGreater(), tmp_path, torch.tensor([1, 2**24, 2**24 + 1, 2**40]))
    (output,) = OpenVino().build(site, {})(*site.example)
    assert output.tolist() == [0.0, 0.0, 1.0, 1.0]


@pytest.mark.parametrize("engine", [OnnxRuntime(), OpenVino()])
@pytest.mark.parametrize("wrong", [-1, 5])
def test_an_index_that_pytorch_refuses_is_refused(engine: Engine, wrong: int, tmp_path: Path) -> None:
    if engine.unavailable(MACHINE):
        pytest.skip(engine.unavailable(MACHINE))
    site = site_of(Looked(), tmp_path, torch.tensor([0, 4]))
    run = engine.build(site, {})
    with pytest.raises(IndexError), torch.no_grad():
        run(torch.tensor([0, wrong]))


@pytest.mark.parametrize("engine", [OnnxRuntime(), OpenVino()])
def test_a_folder_without_a_build_is_one_sentence(engine: Engine, tmp_path: Path) -> None:
    if engine.unavailable(MACHINE):
        pytest.skip(engine.unavailable(MACHINE))
    site = site_of(Doubled(), tmp_path, torch.ones(4))
    with pytest.raises(TuneError, match="tune again"):
        engine.load(site, {})


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.LSTM(6, 5, 2, batch_first=True, bidirectional=True)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        outputs, (hidden, cell) = self.layers(x)
        return outputs, hidden, cell, x.mean(1, keepdim=True).exp().broadcast_to(x.shape), x.std(-1)


class Attends(nn.Module):
    """Attention with what is added to its scores: given in each call, and known beforehand."""

    def __init__(self, known: torch.Tensor) -> None:
        super().__init__()
        self.register_buffer("known", known)

    def forward(self, x: torch.Tensor, bias: torch.Tensor) -> tuple[torch.Tensor, ...]:
        attend = nn.functional.scaled_dot_product_attention
        return attend(x, x, x, bias), attend(x, x, x, self.known), attend(x, x, x, bias == 0)


UNSEEN = torch.zeros(2, 1, 5, 5).masked_fill(torch.tensor([[False], [True]])[..., None, None], -torch.inf)
"""What is added to scores: of the second image no row sees anything."""


@pytest.mark.parametrize("engine", [Eager(), OnnxRuntime(), OpenVino()])
def test_rows_of_attention_that_see_nothing_are_zeros(engine: Engine, tmp_path: Path) -> None:
    if engine.unavailable(MACHINE):
        pytest.skip(engine.unavailable(MACHINE))
    partly = torch.zeros(5, 5).masked_fill(torch.eye(5) > 0, -torch.inf)
    partly[3] = -torch.inf
    site = site_of(Attends(partly), tmp_path, torch.randn(2, 3, 5, 8), UNSEEN)
    with torch.no_grad():
        expected = engine_models.plain(site.graph, site.constants, list(site.example))
        made = engine.build(site, {})(*site.example)
    assert not expected[0][1].any()
    assert not expected[1][:, :, 3].any()
    EngineContract().agree(made, expected, {})


def test_attention_looks_for_rows_that_see_nothing_only_where_there_may_be_some() -> None:
    pytest.importorskip("onnx")
    from jumar.tune.engines.onnx.model import to_onnx

    def kinds(known: torch.Tensor) -> set[str]:
        class Biased(nn.Module):
            def forward(self, x: torch.Tensor) -> torch.Tensor:
                return nn.functional.scaled_dot_product_attention(x, x, x, known)

        graph, constants, _ = engine_models.graph_of(Biased(), [torch.randn(2, 3, 5, 8)])
        return {node.op_type for node in to_onnx(graph, constants).model.graph.node}

    assert "Where" not in kinds(torch.randn(5, 5))
    assert "Where" in kinds(UNSEEN)


@pytest.mark.parametrize("engine", [OnnxRuntime(), OpenVino()])
def test_recurrent_layers_and_expanded_outputs_are_what_pytorch_gives(engine: Engine, tmp_path: Path) -> None:
    if engine.unavailable(MACHINE):
        pytest.skip(engine.unavailable(MACHINE))
    site = site_of(Recurrent(), tmp_path, torch.randn(3, 4, 6))
    with torch.no_grad():
        expected = engine_models.plain(site.graph, site.constants, list(site.example))
        EngineContract().agree(engine.build(site, {})(*site.example), expected, {})


def test_onnxruntime_borrows_the_weights_it_is_given(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    graph, constants, example = engine_models.captured("convolutions")
    OnnxRuntime().build(Site(graph=graph, constants=constants, example=example, folder=tmp_path), {})
    read = {value for node in graph.nodes for value in node.references()} & set(graph.constants)
    assert set(json.loads((tmp_path / "weights.json").read_text()).values()) == read


class Bounded(nn.Module):
    def forward(self, x: torch.Tensor, n: torch.Tensor, low: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return (
            nn.functional.relu6(x), nn.functional.hardtanh(x, -0.5, 2.0), x.clamp(min=0.25), x.clamp(max=-1),
            x.clamp(3.0, 1.0), x.clamp(-torch.inf, 0.5), x.clamp(min=low), n.clamp(-1, 2), x.double().clamp(-1, 1),
        )  # fmt: skip


def test_bounds_are_those_of_pytorch(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    x = torch.tensor([-torch.inf, -7.0, -0.5, 0.0, 0.3, 5.0, 9.0, torch.inf, torch.nan])
    site = site_of(Bounded(), tmp_path, x, torch.arange(-4, 5), torch.full((9,), 0.1))
    expected = engine_models.plain(site.graph, site.constants, list(site.example))
    for given, wanted in zip(OnnxRuntime().build(site, {})(*site.example), expected, strict=True):
        torch.testing.assert_close(given, wanted, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("activation", [nn.ReLU(), nn.ReLU6(), nn.Hardtanh(), nn.Sigmoid(), nn.Tanh()])
def test_onnxruntime_computes_an_activation_with_the_convolution_before_it(
    activation: nn.Module, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    onnx = pytest.importorskip("onnx")
    session = pytest.importorskip("jumar.tune.engines.onnxruntime.session")
    options_of = session._options

    def written(*arguments: object) -> object:
        options = options_of(*arguments)
        options.optimized_model_filepath = str(tmp_path / "optimised.onnx")
        return options

    monkeypatch.setattr(session, "_options", written)
    model = nn.Sequential(nn.Conv2d(3, 16, 3), nn.BatchNorm2d(16), activation, nn.Conv2d(16, 16, 1)).eval()
    OnnxRuntime().build(site_of(model, tmp_path, torch.randn(1, 3, 9, 9)), {})
    kinds = {node.op_type for node in onnx.load(tmp_path / "optimised.onnx", load_external_data=False).graph.node}
    assert "Conv" in kinds
    assert kinds <= {"Conv", "FusedConv", "ReorderInput", "ReorderOutput"}


def test_what_a_further_call_computes_with_is_made_outside_of_the_callers_inference_mode() -> None:
    modes = []

    def first() -> None:
        with torch.inference_mode():
            run()

    def another() -> Callable[..., None]:
        modes.append(torch.is_inference_mode_enabled())
        return lambda: None

    run = one_a_call(first, another)
    run()
    assert modes == [False]
