"""`NpuOperatorContract`: what an operator on the emulated NPU promises."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
import torch
from torch.utils._pytree import tree_flatten, tree_map

from jumar.npu.ops.installed import NpuOperator
from jumar.npu.ops.mechanism.implement import Implementation, arguments

Call = tuple[Sequence[Any], dict[str, Any]]
"""Positional arguments and keywords of one call."""

_SEED = 20


class NpuOperatorContract:
    """An `NpuOperator`. Set `operator`, give calls with CPU tensors in `samples`, and a `reference`.

    class TestMyOperator(NpuOperatorContract):
        operator = acme.operators.SCALED_RELU

        def samples(self):
            return [((torch.randn(2, 3), 2.0), {})]

        def reference(self, x, scale=1.0):
            return torch.relu(x) * scale
    """

    operator: NpuOperator
    tolerances: dict[str, Any] = {"rtol": 1.3e-6, "atol": 1e-5}  # noqa: RUF012  # a suite replaces it as a whole
    """Of `torch.testing.assert_close`, against the reference."""

    @abstractmethod
    def samples(self) -> Sequence[Call]:
        """Return calls whose tensors are on the CPU; equal ones each time after `torch.manual_seed`."""

    @abstractmethod
    def reference(self, *args: Any, **kwargs: Any) -> Any:
        """Compute the result from CPU tensors in plain PyTorch, written apart from the operator's own function."""

    @property
    def implementation(self) -> Implementation:
        """What the emulated NPU registers."""
        return self.operator.implementation

    @pytest.fixture(autouse=True)
    def _emulated_npu(self) -> Iterator[None]:
        """Give each test the emulated NPU, which computes as the CPU does, with the operator on it."""
        from jumar.device import emulate

        with emulate(numerics="exact", unsupported="fallback"):
            _register(self.implementation)
            yield

    def calls(self) -> list[Call]:
        """Return the samples."""
        torch.manual_seed(_SEED)
        found = list(self.samples())
        assert found, "give the contract at least one sample"
        return found

    def call(self, args: Any, kwargs: Any) -> Any:
        """Call the registered operator."""
        schema = self.implementation.schema
        base, _, overload = schema.name.partition(".")
        return getattr(getattr(getattr(torch.ops, schema.namespace), base), overload or "default")(*args, **kwargs)

    def test_its_schema_is_the_registered_one(self) -> None:
        """A library that defines the operator itself must declare it alike."""
        schema = self.implementation.schema
        base, _, overload = schema.name.partition(".")
        packet = getattr(getattr(torch.ops, schema.namespace), base)
        assert str(getattr(packet, overload or "default")._schema) == str(schema.parsed)

    def test_it_gives_what_the_reference_gives(self) -> None:
        """On the npu, with shapes, dtypes and values of the reference on the CPU."""
        for args, kwargs in self.calls():
            found = self.call(*_on_npu((args, kwargs)))
            expected = self.reference(*args, **kwargs)
            assert all(tensor.device.type == "npu" for tensor in _tensors(found))
            torch.testing.assert_close(_on_cpu(found), expected, **self.tolerances)

    def test_it_leaves_its_arguments_as_they_were(self) -> None:
        """Other than those that its schema says it writes."""
        if self.implementation.schema.written:
            pytest.skip("the operator writes arguments")
        for args, kwargs in self.calls():
            given = _on_npu((args, kwargs))
            self.call(*given)
            after, before = list(_tensors(_on_cpu(given))), list(_tensors((args, kwargs)))
            torch.testing.assert_close(after, before, rtol=0, atol=0, equal_nan=True)

    def test_its_results_are_in_memory_of_their_own(self) -> None:
        """A kernel of a device makes new tensors."""
        if self.implementation.schema.written:
            pytest.skip("the operator writes arguments")
        for args, kwargs in self.calls():
            given = _on_npu((args, kwargs))
            taken = {tensor.data_ptr() for tensor in _tensors(given) if tensor.numel()}
            made = [tensor.data_ptr() for tensor in _tensors(self.call(*given)) if tensor.numel()]
            assert taken.isdisjoint(made)

    def test_the_shape_function_gives_the_shapes_of_the_results(self) -> None:
        """On meta tensors nothing is computed; compilers ask this."""
        for args, kwargs in self.calls():
            real = self.call(*_on_npu((args, kwargs)))
            meta = self.call(*tree_map(_to("meta"), (args, kwargs)))
            assert [_form(tensor) for tensor in _tensors(meta)] == [_form(tensor) for tensor in _tensors(real)]

    def test_gradients_are_those_of_the_reference(self) -> None:
        """Of the results that the operator says a gradient flows through."""
        if not self.implementation.differentiable:
            pytest.skip("the operator says that it is not differentiable")
        for args, kwargs in self.calls():
            mine, others = _leaves(_on_npu((args, kwargs))), _leaves((args, kwargs))
            if not any(tensor.requires_grad for tensor in _tensors(mine)):
                continue
            found = list(_tensors(self.call(*mine)))
            expected = list(_tensors(self.reference(*others[0], **others[1])))
            both = enumerate(zip(found, expected, strict=True))
            flowing = [place for place, pair in both if all(tensor.requires_grad for tensor in pair)]
            assert flowing, "no result carries a gradient"
            pairs = (([found[place] for place in flowing], mine), ([expected[place] for place in flowing], others))
            torch.testing.assert_close(*(_gradients(*pair) for pair in pairs), **self.tolerances)

    def test_its_function_takes_every_argument_of_the_schema(self) -> None:
        """In the order of the schema, defaults filled in."""
        for args, kwargs in self.calls():
            positional, keywords = arguments(self.implementation.schema, args, kwargs)
            result = self.implementation.function(*positional, **keywords)
            assert len(list(_tensors(result))) >= 1


def _register(implementation: Implementation) -> None:
    """Register the operator where no installed distribution did."""
    from jumar.npu.core.plans import PLANS
    from jumar.npu.ops.mechanism.registration import register_one

    if implementation.schema.qualified not in PLANS:
        register_one(implementation)


def _to(device: str) -> Any:
    return lambda value: value.to(device) if isinstance(value, torch.Tensor) else value


def _on_npu(values: Any) -> Any:
    return tree_map(_to("npu"), values)


def _on_cpu(values: Any) -> Any:
    return tree_map(lambda value: value.detach().cpu() if isinstance(value, torch.Tensor) else value, values)


def _tensors(values: Any) -> Iterator[torch.Tensor]:
    return (value for value in tree_flatten(values)[0] if isinstance(value, torch.Tensor))


def _form(tensor: torch.Tensor) -> tuple[Any, ...]:
    return tensor.shape, tensor.dtype, tensor.stride()


def _leaves(values: Any) -> Any:
    """Return the values with every floating tensor as a leaf that wants a gradient."""
    return tree_map(
        lambda value: (
            value.detach().requires_grad_(value.is_floating_point()) if isinstance(value, torch.Tensor) else value
        ),
        values,
    )


def _gradients(results: Sequence[torch.Tensor], inputs: Any) -> list[torch.Tensor]:
    """Return the gradients of all floating inputs for fixed gradients of the results, on the CPU."""
    wanted = [tensor for tensor in _tensors(inputs) if tensor.requires_grad]
    seeds = [torch.linspace(-1, 1, max(one.numel(), 1))[: one.numel()].reshape(one.shape).to(one) for one in results]
    found = torch.autograd.grad(results, wanted, seeds, allow_unused=True, materialize_grads=True)
    return [gradient.cpu() for gradient in found]
