"""How the vendor's custom operators are registered, called, differentiated, traced and refused."""

from __future__ import annotations

import inspect
import json
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from jumar.device import DevicePlan, activate
from jumar.npu import listen, override
from jumar.npu.ops import custom
from jumar.npu.ops.mechanism import implement as mechanism
from jumar.npu.ops.mechanism import schemas

activate(DevicePlan(real="never", numerics="exact", unsupported="fallback"))

npu = torch.ops.npu
TABLE = Path(custom.__file__).parents[3] / "soc" / "data" / "npu_custom_operators.json"


def on_npu(*shape: int, grad: bool = False) -> torch.Tensor:
    return torch.randn(*shape).to("npu").requires_grad_(grad)


def test_every_schema_of_the_table_is_an_operator_with_that_schema() -> None:
    texts = json.loads(TABLE.read_text(encoding="utf-8"))["schemas"]
    assert len(schemas.schemas()) == len(texts)
    for schema in schemas.schemas().values():
        base, _, overload = schema.name.partition(".")
        found = getattr(getattr(npu, base), overload or "default")._schema
        assert str(schema.parsed) == str(found), schema.name


def test_the_table_names_where_it_comes_from() -> None:
    assert set(json.loads(TABLE.read_text(encoding="utf-8"))["header"]) == {"source", "licence", "date", "made_by"}


@pytest.mark.parametrize("name", sorted(mechanism.IMPLEMENTATIONS))
def test_an_implementation_can_be_called_with_the_arguments_of_its_schema(name: str) -> None:
    implementation = mechanism.IMPLEMENTATIONS[name]
    arguments = implementation.schema.parsed.arguments
    outs = () if implementation.reads_out else [a.name for a in arguments if a.kwarg_only and a.name in _written(name)]
    positional = [None for a in arguments if not a.kwarg_only]
    keywords = {a.name: None for a in arguments if a.kwarg_only and a.name not in outs}
    inspect.signature(implementation.function, follow_wrapped=False).bind(*positional, **keywords)
    by_name = getattr(implementation.function, "__wrapped__", None)
    if by_name is not None:
        assert _taken(by_name) <= {a.name for a in arguments}


def _taken(function: Callable[..., object]) -> set[str]:
    parameters = inspect.signature(function).parameters.values()
    return {parameter.name for parameter in parameters if parameter.kind is not parameter.VAR_KEYWORD}


def _written(name: str) -> tuple[str, ...]:
    return schemas.schemas()[name].written


def test_a_call_is_one_operator_on_the_device_and_its_gradient_another() -> None:
    x, seen = on_npu(2, 8, grad=True), []
    with listen(lambda event: seen.append(event.operator)):
        result = npu.npu_swiglu(x)
    result.backward(torch.ones_like(result))
    assert seen == ["npu::npu_swiglu"]
    with listen(lambda event: seen.append(event.operator)):
        torch.autograd.grad(npu.npu_swiglu(x), x, torch.ones(2, 4).npu())
    assert "npu::npu_swiglu_backward" in seen


def test_a_result_owns_its_memory_and_is_counted() -> None:
    x = on_npu(64, 64)
    before = torch.npu.memory_allocated()
    result = npu.npu_gelu(x)
    assert torch.npu.memory_allocated() - before >= result.nbytes
    assert result.untyped_storage().data_ptr() != x.untyped_storage().data_ptr()


def test_cpu_tensors_are_refused_in_pytorchs_words() -> None:
    with pytest.raises(NotImplementedError, match="Could not run 'npu::npu_swiglu' with arguments from the 'CPU'"):
        npu.npu_swiglu(torch.randn(2, 4))


def test_tensors_of_two_devices_are_refused() -> None:
    with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device"):
        npu.npu_rms_norm(on_npu(2, 4), torch.ones(4))


def test_an_operator_without_implementation_is_named_with_advice() -> None:
    missing = next(n for n in sorted(schemas.schemas()) if n not in mechanism.IMPLEMENTATIONS and "." not in n)
    kernel = mechanism.not_implemented(schemas.schemas()[missing])
    with pytest.raises(NotImplementedError, match=f"npu::{missing} is not emulated.*torch operators"):
        kernel()


def test_an_in_place_form_writes_its_argument_and_raises_its_version() -> None:
    x = on_npu(3)
    expected = torch.nn.functional.silu(x.cpu())
    version = x._version
    assert npu.npu_silu_(x) is x
    assert x._version > version
    assert torch.equal(x.cpu(), expected)


def test_what_the_vendor_does_not_differentiate_warns_in_pytorchs_words() -> None:
    x = on_npu(2, 4, grad=True)
    y = npu.npu_gemma_rms_norm(x, torch.ones(4).npu())[0]
    with pytest.warns(UserWarning, match="npu::npu_gemma_rms_norm: an autograd kernel was not registered"):
        y.sum().backward()


def test_several_outputs_can_be_given_as_one_tuple() -> None:
    var, m, v = on_npu(4), torch.zeros(4).npu(), torch.zeros(4).npu()
    result = custom.function("npu_apply_adam_w")(
        0.9, 0.99, 0.1, 0.0, 0.9, 0.99, 1e-8, on_npu(4), None, False, False, out=(var, m, v)
    )
    assert [a.data_ptr() for a in result] == [var.data_ptr(), m.data_ptr(), v.data_ptr()]
    assert m.abs().sum() > 0


def test_an_operator_can_be_overridden() -> None:
    x = on_npu(2, 4)
    with override("npu::npu_swiglu", lambda original, *args: original(*args) * 0):
        assert npu.npu_swiglu(x).abs().sum() == 0
    assert npu.npu_swiglu(x).abs().sum() > 0


def test_autocast_leaves_custom_operators_alone() -> None:
    with torch.autocast("npu", dtype=torch.float16):
        assert npu.npu_swiglu(on_npu(2, 4)).dtype == torch.float32


def test_the_default_device_does_not_reach_into_a_kernel() -> None:
    with torch.device("npu"):
        x = torch.randn(2, 3, 4, 4)
        triangle = torch.ones(2048, 2048, dtype=torch.bool).triu(1)
        result = npu.npu_fusion_attention(x, x, x, 3, "BNSD", atten_mask=triangle, sparse_mode=2)
    assert result[0].device.type == "npu"


def test_shapes_follow_without_memory() -> None:
    y, rstd = npu.npu_rms_norm(torch.empty(2, 3, 8, device="meta"), torch.empty(8, device="meta"))
    assert (tuple(y.shape), tuple(rstd.shape)) == ((2, 3, 8), (2, 3, 1))


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_compiled_functions_give_the_same_gradients(backend: str) -> None:
    def function(x: torch.Tensor, gamma: torch.Tensor) -> torch.Tensor:
        return npu.npu_swiglu(npu.npu_rms_norm(x, gamma)[0]).sum()

    x, gamma = on_npu(2, 8, grad=True), torch.ones(8).npu().requires_grad_()
    expected = torch.autograd.grad(function(x, gamma), (x, gamma))
    found = torch.autograd.grad(torch.compile(function, backend=backend)(x, gamma), (x, gamma))
    for a, b in zip(expected, found, strict=True):
        torch.testing.assert_close(a.cpu(), b.cpu())


def test_an_unknown_operator_is_refused_where_it_is_implemented() -> None:
    with pytest.raises(LookupError, match=r"npu_rms_nrm.*npu_rms_norm"):
        mechanism.implements("npu_rms_nrm")(lambda: None)
    with pytest.raises(ValueError, match="implemented by"):
        mechanism.implements("npu_rms_norm")(lambda: None)


def test_torch_npu_names_are_the_operators() -> None:
    assert custom.function("npu_rms_norm") is npu.npu_rms_norm
    with pytest.raises(AttributeError, match="npu_no_such"):
        custom.function("npu_no_such")


def test_results_are_on_the_logical_device_of_the_arguments() -> None:
    program = """
    import torch
    from jumar.device import DevicePlan, activate
    activate(DevicePlan(real="never", num_devices=2, numerics="exact", unsupported="fallback"))
    x = torch.randn(2, 8, device="npu:1", requires_grad=True)
    gamma = torch.ones(8, device="npu:1")
    y, rstd = torch.ops.npu.npu_rms_norm(x, gamma)
    assert str(y.device) == str(rstd.device) == "npu:1", (y.device, rstd.device)
    y.sum().backward()
    assert str(x.grad.device) == "npu:1", x.grad.device
    try:
        torch.ops.npu.npu_rms_norm(x, torch.ones(8, device="npu:0"))
    except RuntimeError as error:
        assert "npu:0" in str(error) and "npu:1" in str(error), error
    else:
        raise AssertionError("tensors of two devices were taken")
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr[-2000:]
