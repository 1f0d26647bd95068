"""torch.compile and torch.export with npu tensors."""

from __future__ import annotations

import io
import warnings

import pytest
import torch
from torch import nn

from jumar.device import DevicePlan, activate
from jumar.npu.api.pytorch import compile_

activate(DevicePlan(real="never", numerics="exact", unsupported="fallback"))


@pytest.fixture(autouse=True)
def _fresh_compiler():
    torch._dynamo.reset()


def network() -> nn.Module:
    torch.manual_seed(0)
    layers = [nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(64, 5)]
    return nn.Sequential(*layers).npu()


def step(model, parameters, x):
    loss = model(x).square().mean()
    loss.backward()
    gradients = [parameter.grad.clone() for parameter in parameters]
    for parameter in parameters:
        parameter.grad = None
    return loss.detach(), gradients


def compiled_step(backend: str):
    x = torch.randn(2, 3, 4, 4, device="npu")
    plain, model = network(), network()
    expected = step(plain, list(plain.parameters()), x)
    return expected, step(torch.compile(model, backend=backend), list(model.parameters()), x)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of PyTorch's own modules, while they are imported
def test_forward_and_backward_of_a_compiled_model_give_the_eager_bits(backend):
    (loss, gradients), (compiled_loss, compiled_gradients) = compiled_step(backend)
    assert torch.equal(loss, compiled_loss)
    assert all(torch.equal(*pair) for pair in zip(gradients, compiled_gradients, strict=True))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_inductor_runs_eagerly_after_one_warning(monkeypatch):
    monkeypatch.setattr(torch._TorchCompileInductorWrapper, "__call__", compile_._falling_back(lambda *_, **__: None))
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        (loss, gradients), (compiled_loss, compiled_gradients) = compiled_step("inductor")
        compiled_step("inductor")
    assert len([item for item in said if str(item.message) == compile_.MESSAGE]) == 1
    assert torch.equal(loss, compiled_loss)
    assert all(torch.equal(*pair) for pair in zip(gradients, compiled_gradients, strict=True))


def test_a_graph_without_npu_tensors_is_left_to_inductor():
    graph = torch.fx.symbolic_trace(lambda x: x + 1)
    assert not compile_.uses_npu(graph, [torch.ones(2)])
    assert compile_.uses_npu(graph, [torch.ones(2, device="npu")])


def test_a_graph_that_makes_npu_tensors_itself_is_known():
    graph = torch.fx.symbolic_trace(lambda x: x + 1)
    with graph.graph.inserting_after(next(iter(graph.graph.nodes))):
        graph.graph.call_function(torch.ones, (2,), {"device": torch.device("npu")})
    assert compile_.uses_npu(graph, [torch.ones(2)])


@pytest.mark.filterwarnings("ignore:The given buffer is not writable")  # PyTorch 2.10's and 2.11's own loading
def test_an_exported_program_runs_on_the_npu_and_survives_a_file():
    model, x = network().eval(), torch.randn(2, 3, 4, 4, device="npu")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        program = torch.export.export(model, (x,))
        file = io.BytesIO()
        torch.export.save(program, file)
        file.seek(0)
        loaded = torch.export.load(file)
    result = loaded.module()(x)
    assert result.device.type == "npu"
    assert torch.equal(result, model(x))


def written(x, indices):
    y = x * 2
    torch.ops.npu.npu_silu_(y)
    torch.ops.npu.npu_scatter_nd_update_(x, indices, y[:1])
    return x + y


@pytest.mark.parametrize("transform", [torch.compile(backend="aot_eager"), torch.func.functionalize])
def test_custom_operators_that_write_their_argument_are_replaced_by_those_that_do_not(transform):
    indices = torch.tensor([[2]]).npu()
    x = torch.arange(6.0).reshape(3, 2).npu()
    same = x.clone()
    expected, found = written(x, indices), transform(written)(same, indices)
    assert torch.equal(found.cpu(), expected.cpu())
    assert torch.equal(same.cpu(), x.cpu()), "the caller's tensor is written too"
