"""Random programs on the emulated NPU and on the CPU: values, geometry, aliasing, versions, memory and errors agree."""

from __future__ import annotations

import random

import pytest
import torch
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from random_programs import OPERATIONS, Step, disagreement

from jumar.device import DevicePlan, activate

activate(DevicePlan(real="never", numerics="exact", unsupported="fallback"))

NUMBERS = st.integers(0, 999)
MAKES = st.tuples(st.just("make"), NUMBERS, NUMBERS, NUMBERS, NUMBERS, NUMBERS)
STEPS = st.tuples(st.sampled_from(sorted(OPERATIONS)), NUMBERS, NUMBERS, NUMBERS, NUMBERS, NUMBERS)


def seeded(seed: int) -> list[Step]:
    """Return the program of a seed."""
    source = random.Random(seed)
    names = ["make"] * 3 + [source.choice(sorted(OPERATIONS)) for _ in range(source.randint(4, 16))]
    return [(name, *(source.randrange(1000) for _ in range(5))) for name in names]  # type: ignore[misc]


def checked(program: list[Step]) -> None:
    found = disagreement(program)
    assert found is None, f"{found}\n" + "\n".join(map(str, program))


@pytest.mark.parametrize("seed", [21, 1807, 2234])
def test_a_seeded_program_agrees(seed):
    checked(seeded(seed))


@pytest.mark.slow
@pytest.mark.parametrize("block", range(10))
def test_thousands_of_programs_agree(block):
    for seed in range(500 * block, 500 * (block + 1)):
        checked(seeded(seed))


@pytest.mark.slow
@settings(
    max_examples=400,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.generate, Phase.shrink],
)
@given(st.lists(MAKES, min_size=2, max_size=3), st.lists(STEPS, min_size=2, max_size=12))
def test_programs_that_hypothesis_draws_agree(makes, steps):
    checked([*makes, *steps])


LISTS = {
    "split": lambda x: x.split(2),
    "split with sizes": lambda x: x.split([1, 3, 2]),
    "split_with_sizes": lambda x: torch.split_with_sizes(x, [4, 2]),
    "chunk": lambda x: x.chunk(3, 1),
    "unbind": lambda x: x.unbind(1),
    "tensor_split": lambda x: x.tensor_split([1, 4]),
    "hsplit": lambda x: x.hsplit(2),
    "vsplit": lambda x: x.vsplit([2, 5]),
    "iteration": list,
    "unsafe_split": lambda x: x.unsafe_split(4),
    "unsafe_chunk": lambda x: x.unsafe_chunk(2, 1),
    "unsafe_split_with_sizes": lambda x: x.unsafe_split_with_sizes([2, 4]),
    "broadcast_tensors": lambda x: torch.broadcast_tensors(x, x[0]),
    "meshgrid": lambda x: torch.meshgrid(x[0], x[1], indexing="ij"),
}


@pytest.mark.parametrize("name", LISTS)
def test_views_in_a_list_share_one_storage_that_counts_once(name):
    x = torch.arange(48.0, device="npu").reshape(6, 8)
    before = torch.npu.memory_allocated()
    pieces = LISTS[name](x)
    assert torch.npu.memory_allocated() == before
    like = LISTS[name](torch.arange(48.0).reshape(6, 8))
    geometry = [(piece.storage_offset(), piece.stride(), piece.shape) for piece in pieces]
    assert geometry == [(piece.storage_offset(), piece.stride(), piece.shape) for piece in like]
    assert {piece.untyped_storage()._cdata for piece in pieces} == {x.untyped_storage()._cdata}
    assert [piece.tolist() for piece in pieces] == [piece.tolist() for piece in like]


OVERLAPPING = {
    "a shifted copy": lambda x: x[1:].copy_(x[:-1]),
    "a shifted sum": lambda x: x[1:].add_(x[:-1]),
    "a transposed sum": lambda x: x.add_(x.t()),
    "an expanded target": lambda x: x[:1].expand(6, 6).mul_(2),
    "strides that meet": lambda x: x.as_strided((3, 6), (0, 1)).sub_(1),
    "a shifted output": lambda x: torch.mul(x[:-1], 2, out=x[1:]),
    "an output that is gathered from": lambda x: torch.index_select(x, 0, torch.tensor([1, 0], device=x.device), out=x),
    "an output that is joined": lambda x: torch.cat([x, x], out=x),
    "a shifted scatter": lambda x: x[1:].scatter_(0, torch.zeros(5, 6, dtype=torch.int64, device=x.device), x[:-1]),
    "an expanded activation": lambda x: x[:1].expand(6, 6).sigmoid_(),
    "a list with a shifted copy": lambda x: torch._foreach_add_([x[1:]], [x[:-1]]),
}


@pytest.mark.parametrize("name", OVERLAPPING)
def test_arguments_that_overlap_are_refused_as_on_the_cpu(name):
    for device in ("cpu", "npu"):
        x = torch.arange(36.0).reshape(6, 6).to(device)
        with pytest.raises(RuntimeError, match="unsupported operation"):
            OVERLAPPING[name](x)
        assert x.flatten().tolist() == [float(i) for i in range(36)] or "joined" in name


GROWN = {
    "add": lambda x, out: torch.add(torch.ones(8, device=x.device), 1, out=out),
    "arange": lambda x, out: torch.arange(9, out=out),
    "cat": lambda x, out: torch.cat([torch.ones(5, device=x.device)] * 2, out=out),
    "index_select": lambda x, out: torch.index_select(x.clone(), 0, torch.tensor([0] * 7, device=x.device), out=out),
    "of itself": lambda x, out: torch.stack([x, x], out=out),
    "smaller": lambda x, out: torch.add(torch.ones(2, device=x.device), 1, out=out),
}


@pytest.mark.filterwarnings(
    "ignore:An output with one or more:UserWarning", "ignore:The number of elements:UserWarning"
)
@pytest.mark.parametrize("place", [slice(None), slice(2, 5), slice(0, 0)], ids=["whole", "part", "empty"])
@pytest.mark.parametrize("name", GROWN)
def test_an_output_that_grows_keeps_its_aliases(name, place):
    found = []
    for device in ("cpu", "npu"):
        x = torch.arange(6.0).to(device)
        out, alias = x[place], x[:6]
        try:
            GROWN[name](x, out)
        except RuntimeError as error:
            found.append(str(error))
            continue
        alias[0] = 42
        found.append((out.tolist(), alias.tolist(), out.storage_offset(), x.untyped_storage().nbytes()))
        assert {item.untyped_storage()._cdata for item in (out, alias)} == {x.untyped_storage()._cdata}
    assert found[0] == found[1]
