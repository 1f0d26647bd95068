"""Random programs of views, writes, outputs, casts and lists, run on the CPU and on the emulated NPU.

A program is a list of steps, each the name of an operation and five whole numbers. The numbers choose the operands
among the tensors made so far, and shapes, dimensions and values, so that every list of steps is a program.
`disagreement` runs one on both devices, step by step, and returns the first difference.
"""

from __future__ import annotations

import copy
import gc
import io
import warnings
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

Tensor = torch.Tensor
Step = tuple[str, int, int, int, int, int]
Pool = list[Tensor]
Operation = Callable[[Any], Any]

OPERATIONS: dict[str, Operation] = {}
MAX_POOL, MAX_NUMEL = 14, 4096
DTYPES = (
    torch.float32, torch.float32, torch.float32, torch.float64, torch.int64, torch.int64, torch.int32, torch.bool,
    torch.float16, torch.uint8, torch.complex64, torch.bfloat16, torch.int8,
)  # fmt: skip
SHAPES = (
    (3, 3), (3, 3), (3, 3), (3,), (3,), (2, 3), (4,), (6,), (2, 2, 3), (1,), (), (0,), (3, 1), (2, 1, 3, 2), (3, 0),
    (1, 2, 3, 2), (3, 2),
)  # fmt: skip


@dataclass
class Machine:
    """One device, the tensors that the program has, and the numbers of the step that runs."""

    device: str
    pool: Pool = field(default_factory=list)
    numbers: tuple[int, ...] = ()
    grad: bool = True
    error: str = ""
    """What the last step raised."""

    def a(self) -> Tensor:
        """The first operand."""
        return self.pool[self.numbers[0] % len(self.pool)]

    def b(self) -> Tensor:
        """The second operand."""
        return self.pool[self.numbers[1] % len(self.pool)]

    def c(self) -> Tensor:
        """The third operand."""
        return self.pool[self.numbers[2] % len(self.pool)]

    def n(self, place: int, end: int) -> int:
        """A number from 0 to `end` - 1."""
        return self.numbers[place] % end if end > 0 else 0

    def dim(self, place: int = 3) -> int:
        """A dimension of the first operand, counted from the end now and then."""
        num = max(self.a().dim(), 1)
        return self.numbers[place] % (2 * num) - num

    def dtype(self, place: int = 3) -> torch.dtype:
        """An element type."""
        return DTYPES[self.numbers[place] % len(DTYPES)]

    def scalar(self, place: int = 4) -> float | int:
        """A number that every type holds."""
        value = self.numbers[place] % 7 - 3
        return value if self.numbers[place] % 2 else value + 0.5

    def several(self) -> list[Tensor]:
        """Two or three of the tensors."""
        return [self.a(), self.b(), self.c()][: 2 + self.numbers[3] % 2]

    def index(self, place: int = 4) -> Tensor:
        """Whole numbers that index the first operand along `dim()`."""
        x = self.a()
        size = x.shape[self.dim()] if x.dim() else 1
        values = [(self.numbers[place] + 3 * i) % size for i in range(2)] if size else []
        return torch.tensor(values, dtype=torch.int64, device=self.device)

    def part(self) -> Tensor:
        """A copy, or now and then a view, of as many elements of the first operand as `index` has."""
        x = self.a()
        if x.dim() and self.numbers[2] % 3 == 0:
            return x.narrow(self.dim(), 0, min(2, x.shape[self.dim()]))
        return x.index_select(self.dim(), self.index()) if x.dim() else x.clone()

    def places(self) -> Tensor:
        """Whole numbers as an index of `gather` and `scatter_`."""
        return torch.zeros(self.part().shape, dtype=torch.int64, device=self.device) + self.n(1, 2)

    def apart(self) -> Tensor:
        """The third operand, which must not show the memory of the first two: products do not look for that."""
        if {x.untyped_storage()._cdata for x in (self.a(), self.b())} & {self.c().untyped_storage()._cdata}:
            raise ValueError("the output is one of the factors")
        return self.c()

    def places_out(self) -> Tensor:
        """An output for whole numbers: the second operand where its type fits, or an empty tensor."""
        y = self.b()
        return y if y.dtype is torch.int64 else torch.empty(0, dtype=torch.int64, device=self.device)


def operation(function: Operation) -> Operation:
    """Add an operation: what it returns joins the pool."""
    OPERATIONS[function.__name__] = function
    return function


def simple(table: dict[str, Operation]) -> None:
    """Add operations that are one expression."""
    OPERATIONS.update(table)


@operation
def make(m: Machine) -> Tensor:
    """A new tensor with small values."""
    shape = SHAPES[m.numbers[0] % len(SHAPES)]
    num = int(torch.Size(shape).numel())
    values = (torch.arange(num) * (m.n(1, 5) + 1) + m.n(2, 7)) % 9
    made = (values - 3 if m.n(4, 2) else values).reshape(shape).to(m.dtype()).to(m.device, copy=True)
    if m.grad and m.n(1, 3) == 0 and made.dtype in (torch.float32, torch.float64):
        made.requires_grad_()
    return made


simple({
    # views
    "select": lambda m: m.a().select(m.dim(), m.n(4, 3)),
    "slice": lambda m: m.a()[m.n(1, 3) :: 1 + m.n(2, 2)],
    "narrow": lambda m: m.a().narrow(m.dim(), m.n(1, 3), m.n(2, 3)),
    "transpose": lambda m: m.a().transpose(m.dim(), m.dim(4)),
    "permute": lambda m: m.a().permute(*reversed(range(m.a().dim()))),
    "unsqueeze": lambda m: m.a().unsqueeze(m.dim()),
    "squeeze": lambda m: m.a().squeeze(),
    "squeeze_dim": lambda m: m.a().squeeze(m.dim()),
    "expand": lambda m: m.a().expand(1 + m.n(4, 3), *m.a().shape),
    "expand_as": lambda m: m.a().expand_as(m.b()),
    "flatten": lambda m: m.a().flatten(),
    "view": lambda m: m.a().view(-1),
    "view_dtype": lambda m: m.a().view(m.dtype()),
    "reshape": lambda m: m.a().reshape(m.b().shape),
    "diagonal": lambda m: m.a().diagonal(m.n(4, 3) - 1),
    "unfold": lambda m: m.a().unfold(m.dim(), 1 + m.n(1, 3), 1 + m.n(2, 2)),
    "as_strided": lambda m: m.a().as_strided((1 + m.n(1, 3), 1 + m.n(2, 2)), (m.n(3, 3), m.n(4, 3)), m.n(3, 4)),
    "as_strided_own": lambda m: m.a().as_strided((1 + m.n(1, 3),), (m.n(2, 3),)),
    "detach": lambda m: m.a().detach(),
    "data": lambda m: m.a().data,
    "conj": lambda m: m.a().conj(),
    "real": lambda m: m.a().real,
    "imag": lambda m: m.a().imag,
    "view_as_real": lambda m: torch.view_as_real(m.a()),
    "view_as_complex": lambda m: torch.view_as_complex(m.a()),
    "adjoint": lambda m: m.a().mT,
    "movedim": lambda m: m.a().movedim(m.dim(), 0),
    "alias": lambda m: m.a()[...],
    # views in lists
    "split": lambda m: m.a().split(1 + m.n(4, 3), m.dim())[:3],
    "split_sizes": lambda m: m.a().split([m.n(1, 3), m.n(2, 3)], m.dim()),
    "chunk": lambda m: m.a().chunk(1 + m.n(4, 3), m.dim()),
    "unbind": lambda m: m.a().unbind(m.dim())[:3],
    "tensor_split": lambda m: m.a().tensor_split(1 + m.n(4, 3), m.dim())[:3],
    "hsplit": lambda m: m.a().hsplit(2),
    "unsafe_split": lambda m: m.a().unsafe_split(1 + m.n(4, 3), m.dim())[:3],
    "unsafe_chunk": lambda m: m.a().unsafe_chunk(1 + m.n(4, 3), m.dim())[:3],
    "iterate": lambda m: list(m.a())[:2],
    "broadcast_tensors": lambda m: torch.broadcast_tensors(m.a(), m.b()),
    "atleast_2d": lambda m: torch.atleast_2d(m.a(), m.b()),
    # writes
    "add_number_": lambda m: m.a().add_(m.scalar()),
    "add_": lambda m: m.a().add_(m.b()),
    "sub_": lambda m: m.a().sub_(m.b(), alpha=2),
    "mul_": lambda m: m.a().mul_(m.b()),
    "addcmul_": lambda m: m.a().addcmul_(m.b(), m.c()),
    "lerp_": lambda m: m.a().lerp_(m.b(), 0.5),
    "copy_": lambda m: m.a().copy_(m.b()),
    "copy_shifted_": lambda m: m.a()[1:].copy_(m.a()[:-1]),
    "add_shifted_": lambda m: m.a()[1:].add_(m.a()[:-1]),
    "add_own_transpose_": lambda m: m.a().add_(m.a().mT),
    "fill_": lambda m: m.a().fill_(m.scalar()),
    "fill_tensor_": lambda m: m.a().fill_(m.b()),
    "zero_": lambda m: m.a().zero_(),
    "clamp_": lambda m: m.a().clamp_(-1, 2),
    "neg_": lambda m: m.a().neg_(),
    "relu_": lambda m: m.a().relu_(),
    "masked_fill_": lambda m: m.a().masked_fill_(m.b() > 0, m.scalar()),
    "masked_scatter_": lambda m: m.a().masked_scatter_(m.b() > 0, m.c()),
    "index_fill_": lambda m: m.a().index_fill_(m.dim(), m.index(), m.scalar()),
    "index_add_": lambda m: m.a().index_add_(m.dim(), m.index(), m.part()),
    "index_copy_": lambda m: m.a().index_copy_(m.dim(), m.index(), m.part()),
    "scatter_": lambda m: m.a().scatter_(m.dim(), m.places(), m.part()),
    "scatter_add_": lambda m: m.a().scatter_add_(m.dim(), m.places(), m.part()),
    "put_": lambda m: m.a().put_(m.index() * 0, m.part().flatten()[:2]),
    "cumsum_": lambda m: m.a().cumsum_(m.dim()),
    "transpose_": lambda m: m.a().transpose_(m.dim(), m.dim(4)),
    "squeeze_": lambda m: m.a().squeeze_(),
    "unsqueeze_": lambda m: m.a().unsqueeze_(m.dim()),
    "resize_": lambda m: m.a().resize_(m.b().shape),
    "set_": lambda m: m.a().set_(m.b()),
    "set_part_": lambda m: m.a().set_(m.a().untyped_storage(), m.n(1, 3), (m.n(2, 5),)),
    "set_empty_": lambda m: m.a().set_(),
    "detach_": lambda m: m.a().detach_(),
    "requires_grad_": lambda m: m.a().requires_grad_(m.n(4, 2) == 0),
    # functions
    "add": lambda m: m.a() + m.b(),
    "mul": lambda m: m.a() * m.b(),
    "add_number": lambda m: m.a() + m.scalar(),
    "rsub": lambda m: m.scalar() - m.a(),
    "compare": lambda m: m.a() < m.b(),
    "where": lambda m: torch.where(m.a() > 0, m.b(), m.c()),
    "sum": lambda m: m.a().sum(),
    "sum_dim": lambda m: m.a().sum(m.dim(), keepdim=m.n(4, 2) == 0),
    "max_dim": lambda m: m.a().max(m.dim()),
    "prod": lambda m: m.a().prod(),
    "matmul": lambda m: m.a() @ m.b(),
    "cat": lambda m: torch.cat(m.several(), m.n(4, 2)),
    "stack": lambda m: torch.stack(m.several()),
    "to_dtype": lambda m: m.a().to(m.dtype()),
    "type_as": lambda m: m.a().type_as(m.b()),
    "clone": lambda m: m.a().clone(),
    "contiguous": lambda m: m.a().contiguous(),
    "channels_last": lambda m: m.a().contiguous(memory_format=torch.channels_last),
    "empty_like_zero": lambda m: torch.zeros_like(m.a()),
    "new_zeros": lambda m: m.a().new_zeros(2, 2),
    "index": lambda m: m.a()[m.index()],
    "index_mask": lambda m: m.a()[m.b() > 0],
    "index_select": lambda m: m.a().index_select(m.dim(), m.index()),
    "gather": lambda m: m.a().gather(m.dim(), m.places()),
    "masked_select": lambda m: m.a().masked_select(m.b() > 0),
    "nonzero": lambda m: m.a().nonzero(),
    "repeat": lambda m: m.a().repeat(2, *[1] * m.a().dim()),
    "roll": lambda m: m.a().roll(1, m.dim()),
    "flip": lambda m: m.a().flip(m.dim()),
    "sort": lambda m: torch.sort(m.a(), dim=m.dim(), stable=True),
    "cumsum": lambda m: m.a().cumsum(m.dim()),
    "resolve_conj": lambda m: m.a().resolve_conj(),
    "meshgrid": lambda m: torch.meshgrid(m.a(), m.b(), indexing="ij"),
    "kron": lambda m: torch.kron(m.a(), m.b()),
    "pad": lambda m: torch.nn.functional.pad(m.a(), (1, m.n(4, 2))),
    # outputs
    "add(out=)": lambda m: torch.add(m.a(), m.b(), out=m.c()),
    "mul(out=)": lambda m: torch.mul(m.a(), m.scalar(), out=m.c()),
    "shifted(out=)": lambda m: torch.add(m.a()[:-1], 1, out=m.a()[1:]),
    "cat(out=)": lambda m: torch.cat([m.a(), m.b()], out=m.c()),
    "stack(out=)": lambda m: torch.stack([m.a(), m.b()], out=m.c()),
    "sum(out=)": lambda m: torch.sum(m.a(), m.dim(), out=m.c()),
    "cumsum(out=)": lambda m: torch.cumsum(m.a(), m.dim(), out=m.c()),
    "max(out=)": lambda m: torch.max(m.a(), m.dim(), out=(m.c(), m.places_out())),
    "sort(out=)": lambda m: torch.sort(m.a(), dim=m.dim(), stable=True, out=(m.c(), m.places_out())),
    "mm(out=)": lambda m: torch.mm(m.a(), m.b(), out=m.apart()),
    "index_select(out=)": lambda m: torch.index_select(m.a(), m.dim(), m.index(), out=m.c()),
    "masked_select(out=)": lambda m: torch.masked_select(m.a(), m.b() > 0, out=m.c()),
    "where(out=)": lambda m: torch.where(m.a() > 0, m.a(), m.b(), out=m.c()),
    "arange(out=)": lambda m: torch.arange(m.n(4, 9), out=m.c()),
    "nonzero(out=)": lambda m: torch.nonzero(m.a(), out=m.c()),
    "zeros(out=)": lambda m: torch.zeros(m.n(4, 9), out=m.c()),
    "empty_then(out=)": lambda m: torch.add(m.a(), m.b(), out=torch.empty(0, device=m.device)),
    # lists
    "foreach_add_": lambda m: torch._foreach_add_(m.several(), m.scalar()),
    "foreach_mul_": lambda m: torch._foreach_mul_([m.a(), m.b()], [m.b(), m.c()]),
    "foreach_copy_": lambda m: torch._foreach_copy_([m.a()], [m.b()]),
    "foreach_add": lambda m: torch._foreach_add(m.several(), m.scalar()),
    "foreach_zero_": lambda m: torch._foreach_zero_(m.several()),
})  # fmt: skip


@operation
def set_item(m: Machine) -> None:
    """Write a part of the first operand from the second."""
    # NOTE: a value without dimensions is filled in on the CPU and copied on every other device.
    m.a()[m.n(3, 2) : m.n(4, 4)] = torch.atleast_1d(m.b())


@operation
def set_item_mask(m: Machine) -> None:
    """Write where the second operand is positive."""
    m.a()[m.b() > 0] = m.scalar()


@operation
def set_item_index(m: Machine) -> None:
    """Write at an index, adding up."""
    m.a().index_put_((m.index(),), m.b(), accumulate=m.n(4, 2) == 0)


@operation
def set_data(m: Machine) -> None:
    """Let one tensor take the memory of another."""
    m.a().data = m.b()


@operation
def drop(m: Machine) -> None:
    """Forget a tensor."""
    if len(m.pool) > 2:
        del m.pool[m.numbers[0] % len(m.pool)]


@operation
def toggle_grad(m: Machine) -> None:
    """From now on run with or without autograd."""
    m.grad = not m.grad


@operation
def saved(m: Machine) -> list[Tensor]:
    """Two tensors written to a file and read, with what they share."""
    with io.BytesIO() as file:
        torch.save((m.a().detach(), m.b().detach()), file)
        file.seek(0)
        return list(torch.load(file))


@operation
def deep_copied(m: Machine) -> list[Tensor]:
    """Two tensors copied together, with what they share."""
    return list(copy.deepcopy((m.a().detach(), m.b().detach())))


@operation
def backward(m: Machine) -> list[Tensor]:
    """The gradients of the first operand's sum."""
    leaves = [tensor for tensor in m.pool if tensor.requires_grad and tensor.is_leaf]
    found = torch.autograd.grad(m.a().sum(), leaves, allow_unused=True, retain_graph=True)
    # NOTE: copies, because the engine adds gradients up in place where nobody else holds them, Python included.
    return [gradient.detach().clone() for gradient in found if gradient is not None][:2]


def run_step(machine: Machine, step: Step) -> type[BaseException] | None:
    """Run a step; return the type of the error that it raised."""
    machine.numbers, machine.error = step[1:], ""
    if not machine.pool and step[0] != "make":
        return None
    try:
        with torch.set_grad_enabled(machine.grad):
            result = OPERATIONS[step[0]](machine)
    except (RuntimeError, IndexError, TypeError, ValueError, NotImplementedError) as error:
        machine.error = str(error)
        return type(error)
    for item in result if isinstance(result, (list, tuple)) else [result]:
        if isinstance(item, Tensor) and item.numel() <= MAX_NUMEL and not any(item is held for held in machine.pool):
            machine.pool.append(item)
    del machine.pool[: max(len(machine.pool) - MAX_POOL, 0)]
    return None


def facts(pool: Pool) -> list[tuple[Any, ...]]:
    """Return what both devices must agree on, for each tensor: geometry, aliasing, version, autograd."""
    storages: dict[int, int] = {}
    found = []
    for tensor in pool:
        storage = tensor.untyped_storage()
        place = storages.setdefault(storage._cdata, len(storages))
        found.append((
            tensor.dtype, tuple(tensor.shape), tensor.stride(), tensor.storage_offset(), storage.nbytes(), place,
            tensor._version, tensor.requires_grad, tensor._is_view(), tensor.is_conj(), tensor.is_neg(),
            *history(tensor), next((i for i, base in enumerate(pool) if base is tensor._base), None),
        ))  # fmt: skip
    return found


def history(tensor: Tensor) -> tuple[Any, ...]:
    """Return what autograd knows of a tensor; views that it can follow no longer raise."""
    try:
        return tensor.is_leaf, type(tensor.grad_fn).__name__, tensor.output_nr
    except RuntimeError as error:
        return ("raises", str(error)[:40], "")


FACTS = (
    "dtype", "shape", "stride", "storage_offset", "storage bytes", "aliasing", "version", "requires_grad", "is_view",
    "is_conj", "is_neg", "is_leaf", "grad_fn", "output_nr", "base",
)  # fmt: skip


def same_values(ours: Tensor, reference: Tensor) -> bool:
    """Return whether two tensors hold the same numbers; NaN equals NaN."""
    mine = ours.detach().cpu().resolve_conj().resolve_neg()
    other = reference.detach().resolve_conj().resolve_neg()
    if mine.is_complex():  # half of them have no comparison
        mine, other = torch.view_as_real(mine), torch.view_as_real(other)
    return torch.equal(mine, other) or torch.allclose(mine, other, rtol=0, atol=0, equal_nan=True)


def charged_bytes(pool: Pool) -> int:
    """Return the bytes that the caching allocator counts for the storages of these tensors."""
    held = [*pool, *(tensor._base for tensor in pool if tensor._base is not None)]
    sizes = {tensor.untyped_storage()._cdata: tensor.untyped_storage().nbytes() for tensor in held}
    return sum(-(-(size + 32) // 512) * 512 for size in sizes.values() if size)


def difference(npu: Machine, cpu: Machine, start: int) -> str | None:
    """Return what the tensors of the two machines differ in."""
    if len(npu.pool) != len(cpu.pool):
        return f"{len(npu.pool)} tensors for {len(cpu.pool)}"
    for place, (ours, reference) in enumerate(zip(facts(npu.pool), facts(cpu.pool), strict=True)):
        for name, one, other in zip(FACTS, ours, reference, strict=True):
            if one != other:
                return f"{name} of tensor {place}: {one}, and {other} on the CPU"
    if not any(tensor.requires_grad for tensor in npu.pool):
        allocated, expected = torch.npu.memory_allocated() - start, charged_bytes(npu.pool)
        if allocated != expected:
            return f"{allocated} bytes allocated where the storages take {expected}"
    return None


def wrong_values(npu: Machine, cpu: Machine) -> str | None:
    """Return the first tensor whose values differ."""
    for place, (ours, reference) in enumerate(zip(npu.pool, cpu.pool, strict=True)):
        if not same_values(ours, reference):
            return f"values of tensor {place}: {ours.tolist()}, and {reference.tolist()} on the CPU"
    return None


def disagreement(program: Sequence[Step]) -> str | None:
    """Run a program on both devices; return the first difference, None when there is none."""
    npu, cpu = Machine("npu"), Machine("cpu")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        start = torch.npu.memory_allocated()
        found = _compared(program, npu, cpu, start)
        if found is not None:
            return found
        reference = [weakref.ref(tensor.untyped_storage()) for tensor in cpu.pool]
        npu.pool.clear()
        cpu.pool.clear()
        if torch.npu.memory_allocated() != start:
            gc.collect()
        left = torch.npu.memory_allocated() - start
    # NOTE: some graphs of autograd hold themselves (`y.mul_(y)`); then memory is left on every device.
    return (
        f"{left} bytes are left after the end" if left and not any(item() is not None for item in reference) else None
    )


def _compared(program: Sequence[Step], npu: Machine, cpu: Machine, start: int) -> str | None:
    sizes: dict[int, int] = {}
    has_grown = False
    for number, step in enumerate(program):
        expected, got = run_step(cpu, step), run_step(npu, step)
        if "not resizable" in cpu.error or "out of bounds for storage" in cpu.error:  # limits of the CPU's memory
            return None
        # NOTE: the adapter checks the dimensions of reductions itself, and raises RuntimeError.
        is_dimension = got is RuntimeError and expected is IndexError and cpu.error in npu.error
        if got is not expected and not is_dimension:
            errors = f"{got} {npu.error[:160]!r}, and {expected} {cpu.error[:160]!r} on the CPU"
            return f"step {number} {step}: {errors}"
        if expected is not None and ("out=" in step[0] or "foreach" in step[0]):  # what was written is undefined
            return None
        found = difference(npu, cpu, start)
        if found is not None:
            return f"step {number} {step}: {found}"
        has_grown = has_grown or grew(cpu.pool, sizes)
        found = wrong_values(npu, cpu)
        if found is not None:  # a storage that grew has memory that nobody wrote
            return None if has_grown else f"step {number} {step}: {found}"
    return None


def grew(pool: Pool, sizes: dict[int, int]) -> bool:
    """Return whether a storage is larger than `sizes` remembers, or than a new tensor; remember those of now."""
    now: dict[int, int] = {}
    shown: dict[int, int] = {}
    for tensor in pool:
        storage = tensor.untyped_storage()
        now[storage._cdata] = storage.nbytes()
        shown[storage._cdata] = max(shown.get(storage._cdata, 0), tensor.numel() * tensor.element_size())
    found = any(size > sizes.get(address, shown[address]) for address, size in now.items())
    sizes.clear()
    sizes.update(now)
    return found
