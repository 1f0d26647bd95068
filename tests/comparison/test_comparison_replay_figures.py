"""Recorded arrays become tensors again; differences are counted in units in the last place."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from jumar.comparison.replay.figures import is_identical, output_error, sides
from jumar.comparison.replay.rebuilt.invocation import decoded
from jumar.comparison.replay.rebuilt.memory import covers, tensors, torch_dtype
from jumar.comparison.replay.rebuilt.refusal import NotReplayable
from jumar.recording import TensorRow


def row_of(tensor: torch.Tensor, name: str = "input.0", storage: int = 1) -> TensorRow:
    return TensorRow(
        name=name,
        shape=tuple(tensor.shape),
        dtype=str(tensor.dtype).removeprefix("torch."),
        device="cpu",
        stride=tensor.stride(),
        storage_offset=int(tensor.storage_offset()),
        contiguous=tensor.is_contiguous(),
        storage=storage,
    )


@st.composite
def views(draw: st.DrawFn) -> torch.Tensor:
    """A view of memory with gaps, steps, transposed and expanded dimensions."""
    shape = draw(st.lists(st.integers(1, 4), min_size=1, max_size=3))
    tensor = torch.arange(math.prod(shape) * 4, dtype=torch.float32)[: math.prod(shape) * 2 : 2].reshape(shape)
    if draw(st.booleans()):
        tensor = tensor.transpose(0, -1)
    axis = draw(st.integers(0, len(shape) - 1))
    if draw(st.booleans()):
        tensor = tensor.narrow(axis, 0, max(1, tensor.shape[axis] - 1))
    if draw(st.booleans()):
        tensor = tensor[:1].expand(3, *tensor.shape[1:])
    return tensor


@given(views())
@settings(derandomize=True, deadline=None, max_examples=60)
def test_a_tensor_comes_back_with_values_and_strides(tensor: torch.Tensor) -> None:
    found = tensors([row_of(tensor)], {"input.0": tensor.numpy()}, torch_dtype, "cpu")["input.0"]
    assert torch.equal(found, tensor)
    assert found.stride() == tensor.stride()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2, torch.complex64, torch.bool])
def test_dtypes_that_numpy_lacks_come_back(dtype: torch.dtype) -> None:
    tensor = torch.tensor([0.0, 1.0, -1.5, 0.25]).to(dtype)
    stored = tensor if dtype in (torch.complex64, torch.bool) else tensor.float()
    found = tensors([row_of(tensor)], {"input.0": stored.numpy()}, torch_dtype, "cpu")["input.0"]
    assert found.dtype == dtype
    assert is_identical(found, tensor)


def test_tensors_of_one_storage_share_memory_when_asked() -> None:
    memory = torch.arange(6.0)
    first, second = memory[:4], memory[2:]
    rows = [row_of(first, "input.0"), row_of(second, "input.1")]
    arrays = {"input.0": first.numpy(), "input.1": second.numpy()}
    shared = tensors(rows, arrays, torch_dtype, "cpu", shared=True)
    shared["input.0"][3] = 10
    assert shared["input.1"].tolist() == [2, 10, 4, 5]
    apart = tensors(rows, arrays, torch_dtype, "cpu")
    apart["input.0"][3] = 10
    assert apart["input.1"].tolist() == [2, 3, 4, 5]


def test_a_tensor_that_is_not_there_is_refused_by_name() -> None:
    with pytest.raises(NotReplayable, match=r"input\.0 \(float32, ND\) was not recorded"):
        tensors([row_of(torch.ones(2))], {}, torch_dtype, "cpu")


def test_a_view_is_covered_when_each_of_its_elements_was_recorded() -> None:
    row = row_of(torch.arange(10.0)[2:6])
    assert covers(row, (2,), (2,), 2)
    assert not covers(row, (2,), (4,), 2)
    assert not covers(row, (1,), (1,), 1)
    assert covers(row, (0,), (1,), 9)


@given(st.integers(-120, 120), st.integers(1, 50))
@settings(derandomize=True, deadline=None, max_examples=60)
def test_a_shift_by_n_units_in_the_last_place_counts_n(exponent: int, steps: int) -> None:
    exact = np.float32(2.0**exponent)
    recorded = np.array([exact + steps * np.spacing(exact)], np.float32)
    row = row_of(torch.zeros(1), "output.0")
    both = sides(recorded, torch.tensor([float(exact)], dtype=torch.float64), row)
    assert both is not None
    assert output_error("output.0", both, 1e-6, 0.0).max_ulps == pytest.approx(steps)


def test_nan_and_infinity_on_one_side_are_an_infinite_error() -> None:
    row = row_of(torch.zeros(3), "output.0")
    both = sides(np.array([1, np.nan, np.inf], np.float32), torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64), row)
    assert both is not None
    found = output_error("output.0", both, 1e-6, 0.0)
    assert (found.error, found.num_nonfinite_differs) == (math.inf, 2)
    same = sides(np.array([np.nan], np.float32), torch.tensor([math.nan], dtype=torch.float64), row_of(torch.zeros(1)))
    assert same is not None
    assert output_error("output.0", same, 1e-6, 0.0).error == 0


def test_integers_differ_by_the_share_of_their_elements() -> None:
    row = row_of(torch.zeros(4, dtype=torch.int64), "output.0")
    both = sides(np.array([1, 2, 3, 4]), torch.tensor([1, 2, 3, 5]), row)
    assert both is not None
    assert output_error("output.0", both, 0.0, 0.0).error == 0.25
    assert output_error("output.0", both, 0.0, 0.0, excused=1.0).error == 0


@pytest.mark.parametrize(
    ("value", "kind", "expected"),
    [
        ("float16", "Optional[ScalarType]", torch.float16),
        ("channels_last", "Optional[MemoryFormat]", torch.channels_last),
        ("strided", "Layout", torch.strided),
        ("npu:3", "Optional[Device]", torch.device("cpu")),
        ("(1+2j)", "number", 1 + 2j),
        ("mean", "str", "mean"),
        ([1, 2], "List[int]", [1, 2]),
        (None, "Optional[int]", None),
        ("Generator", "Optional[Generator]", None),
    ],
)
def test_arguments_come_back_from_json(value: object, kind: str, expected: object) -> None:
    found = decoded(value, kind, "it")
    assert found == expected or (isinstance(found, torch.device) and isinstance(expected, torch.device))


@pytest.mark.parametrize(("value", "kind"), [("CellParamsBase", "__torch__.torch.classes.rnn"), ("what", "number")])
def test_what_json_does_not_hold_is_refused(value: str, kind: str) -> None:
    with pytest.raises(NotReplayable, match="the argument it"):
        decoded(value, kind, "it")
