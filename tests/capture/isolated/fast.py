"""What C++ notes is what Python notes: programs recorded with and without it."""

from __future__ import annotations

import dataclasses
import gc
import math
import sys
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import checkpoint

from jumar.base.native import CompilerError, compiler
from jumar.capture import record
from jumar.capture.fast import loading
from jumar.recording import CallRow, Recording, TensorRow, sketch

TIMES = {"start_us", "duration_us"}
FILLS = {
    "aten::bernoulli_.float",
    "aten::copy_",
    "aten::fill_.Scalar",
    "aten::fill_.Tensor",
    "aten::normal_",
    "aten::uniform_",
    "aten::zero_",
}
"""What they write may never have been written before: its values differ from run to run."""


@pytest.fixture(scope="module")
def module() -> Any:
    """The compiled module: half a minute where it is not in the cache."""
    if not compiler():
        pytest.skip("no C++ compiler is installed")
    try:
        return loading.load()
    except CompilerError as error:
        pytest.skip(f"this PyTorch has other headers: {error}")


@pytest.fixture
def recorded(module: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[list[CallRow], ...]]:
    """Returns the rows of a program by Python and by C++: `recorded(make, **options)`, `make()` giving a fresh one."""
    numbers = iter(range(10_000))

    def rows(make: Callable[[], Callable[[], None]], native: Any, **options: Any) -> list[CallRow]:
        monkeypatch.setitem(loading._state, "module", native)
        monkeypatch.setenv(loading.SWITCH, "1" if native is not None else "0")
        path = tmp_path / str(next(numbers))
        torch.manual_seed(0)
        program = make()
        with record(path, **options) as session:
            program()
            assert (session.observer._fast._host is not None) == (native is not None)
        recording = Recording.open(path)
        assert recording.ends[0].not_covered == ()
        return [row for step in recording.steps() for row in recording.rows(step)]

    def both(make: Callable[[], Callable[[], None]], **options: Any) -> tuple[list[CallRow], ...]:
        return rows(make, None, **options), rows(make, module, **options)

    return both


def assert_same(by_python: list[CallRow], by_cpp: list[CallRow]) -> None:
    assert [row.key for row in by_python] == [row.key for row in by_cpp]
    for first, second in zip(by_python, by_cpp, strict=True):
        for field in dataclasses.fields(CallRow):
            if field.name not in TIMES | {"inputs", "outputs"}:
                assert getattr(first, field.name) == getattr(second, field.name), (first.key, field.name)
        for side in ("inputs", "outputs"):
            mine, other = getattr(first, side), getattr(second, side)
            assert [tensor.name for tensor in mine] == [tensor.name for tensor in other], (first.key, side)
            for one, two in zip(mine, other, strict=True):
                if first.name in FILLS and one.name == "input.0":
                    one, two = unfilled(one), unfilled(two)  # noqa: PLW2901 - the same without what is not defined
                assert_same_tensor(one, two, f"{first.key} {one.name}")


def unfilled(tensor: TensorRow) -> TensorRow:
    return dataclasses.replace(
        tensor, minimum=None, maximum=None, mean=None, l2=None, num_nan=None, num_inf=None, sketch=None, hash=""
    )


def assert_same_tensor(first: TensorRow, second: TensorRow, place: str) -> None:
    """Equal but for rounding: the mean within 2⁻¹⁸ of the mean magnitude, norm and sketch within 2⁻²⁰ and 2⁻¹⁸."""
    for field in dataclasses.fields(TensorRow):
        mine, other = getattr(first, field.name), getattr(second, field.name)
        if mine is None or other is None or field.name not in {"mean", "l2", "sketch"}:
            assert mine == other, (place, field.name)
        elif field.name == "sketch":
            difference = np.abs(sketch.unpack(mine).astype(float) - sketch.unpack(other)).max()
            assert difference <= sketch.ROUNDING * (first.l2 or 0.0), place
        elif field.name == "l2":
            assert math.isclose(mine, other, rel_tol=2**-18, abs_tol=1e-37), (place, mine, other)
        else:
            num = max(1, math.prod(size for size in first.shape if size > 0))
            assert abs(mine - other) <= 2**-18 * (first.l2 or 0.0) / math.sqrt(num) + 1e-37, (place, mine, other)


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.norm = nn.Linear(8, 8), nn.Linear(8, 8), nn.BatchNorm1d(8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.b(torch.relu(self.norm(self.a(x))))


def _inplace(x: torch.Tensor) -> torch.Tensor:
    y = x * 2
    y.add_(1).mul_(0.5)
    y[0] = 3
    return y


def _views(x: torch.Tensor) -> torch.Tensor:
    left, right = x.t().chunk(2)
    return torch.cat([left.expand(left.shape).contiguous(), right * left[:1]]).t()


def _branch(x: torch.Tensor) -> torch.Tensor:
    return x.sigmoid() if x.sum() > 0 else x.tanh() - x.cumsum(0)


def _dtypes(x: torch.Tensor) -> torch.Tensor:
    return (x.double() + x.half().float() + x.bfloat16().float()).float() * x.gt(0) / 3


def _odd(x: torch.Tensor) -> torch.Tensor:
    masked = x.masked_fill(x > 0.5, float("-inf"))
    return x + masked.softmax(-1) + torch.complex(x, x).abs() + x.unfold(0, 2, 1).sum() * 1e-3


def _list(x: torch.Tensor) -> torch.Tensor:
    parts = torch._foreach_add([x, x * 2], 1.0)
    return torch.stack(parts).sum(0)[torch.arange(x.shape[0] - 1, -1, -1)]


def _dropout(x: torch.Tensor) -> torch.Tensor:
    return nn.functional.dropout(x, 0.3) + torch.randn_like(x)


PIECES = (_inplace, _views, _branch, _dtypes, _odd, _list, _dropout)


def training(pieces: list[int], sizes: list[int], num_batches: int, recomputes: bool) -> Callable[[], None]:
    model = Net()
    updates = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    scale = torch.ones(8, requires_grad=True)

    def forward(x: torch.Tensor) -> torch.Tensor:
        x = model(x) * scale
        for number in pieces:
            x = PIECES[number](x)
        return x

    def run() -> None:
        for size in sizes:
            for _ in range(num_batches):
                x = torch.randn(size, 8)
                y = checkpoint(forward, x, use_reentrant=False) if recomputes else forward(x)
                (y.square().mean() / num_batches).backward()
            updates.step()
            updates.zero_grad()

    return run


@settings(
    derandomize=True,
    max_examples=10,
    deadline=None,
    phases=(Phase.generate,),  # a program is as easily read whole, and shrinking one takes minutes
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    pieces=st.lists(st.integers(0, len(PIECES) - 1), max_size=4),
    sizes=st.lists(st.integers(2, 6), min_size=1, max_size=3),
    num_batches=st.integers(1, 2),
    recomputes=st.booleans(),
    values=st.sampled_from(["none", "stats", "sketch", "hash"]),
    levels=st.sampled_from([("module", "op"), ("op",), ("module",), ("module", "op", "optimizer")]),
)
def test_rows_of_random_programs_are_those_that_python_notes(
    recorded: Callable[..., Any],
    pieces: list[int],
    sizes: list[int],
    num_batches: int,
    recomputes: bool,
    values: str,
    levels: tuple[str, ...],
) -> None:
    assert_same(*recorded(lambda: training(pieces, sizes, num_batches, recomputes), values=values, levels=levels))


KINDS = ("normal", "tiny", "huge", "zero", "masked", "nan", "one inf")


def _values(kind: str, size: int) -> torch.Tensor:
    x = torch.randn(size) * {"tiny": 1e-25, "huge": 1e25, "zero": 0.0}.get(kind, 1.0)
    if kind == "masked":
        x[torch.rand(size) < 0.5] = -math.inf
    if kind == "nan":
        x[::3], x[1::5] = math.nan, math.inf
    if kind == "one inf":
        x[size // 2] = math.inf
    return x


@pytest.mark.parametrize("size", [1, 63, 65, 2040, 130_497, 300_001])
def test_values_of_any_size_and_magnitude_agree_with_numpy(recorded: Callable[..., Any], size: int) -> None:
    def make() -> Callable[[], None]:
        tensors = [_values(kind, size) for kind in KINDS]

        def program() -> None:
            for x in tensors:
                x.clone()
                x + 0

        return program

    assert_same(*recorded(make, values="sketch", levels=("op",)))


def test_losses_keep_their_bits(module: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def losses() -> Iterator[float]:
        torch.manual_seed(0)
        model = Net()
        updates = torch.optim.Adam(model.parameters())
        for _ in range(3):
            loss = model(torch.randn(4, 8)).square().mean()
            loss.backward()
            updates.step()
            yield loss.item()

    expected = list(losses())
    monkeypatch.setitem(loading._state, "module", module)
    with record(tmp_path / "recording", values="sketch"):
        assert expected == list(losses())


def test_operators_below_another_mode_are_the_same(recorded: Callable[..., Any]) -> None:
    class Doubling(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return func(*args, **(kwargs or {}))

    def program() -> None:
        x = torch.ones(4)
        with Doubling():
            x = x * 3
        x.exp().sum()

    assert_same(*recorded(lambda: program, values="stats"))


class Results(OrderedDict[str, Any]):
    """As model libraries return them."""


class Nested(nn.Module):
    """Takes and returns tensors in tuples, lists and dictionaries, deeper than they are followed."""

    def forward(self, pair: Any, *, scale: torch.Tensor | None = None, deep: Any = None) -> Results:
        x = pair[0] * pair[1]["second"][0] * (1.0 if scale is None else scale)
        return Results(last=x, states=(x.exp(), [x.sin(), {"inner": x.cos()}]), size=x.shape[0], none=None)


def _nested() -> Callable[[], None]:
    model, outer = Nested(), nn.ModuleList([nn.Linear(4, 4)])

    def program() -> None:
        leaf, scale = torch.randn(3, 4, requires_grad=True), torch.randn(4, requires_grad=True)
        for _ in range(2):
            given = (outer[0](leaf), {"second": [leaf]})
            found = model(given, scale=scale, deep=[[[[[leaf]]]]])
            (found["last"].sum() + found["states"][1][1]["inner"].sum()).backward()

    return program


def _again() -> Callable[[], None]:
    """Two backward passes through one graph, one for a gradient of a gradient, one in the step after."""
    model, untrained = Net(), Net()
    updates = torch.optim.SGD(model.parameters(), lr=0.1)

    def program() -> None:
        kept: list[torch.Tensor] = []
        for _ in range(3):
            x = torch.randn(3, 8, requires_grad=True)
            loss = model(x).square().mean()
            loss.backward(retain_graph=True)
            loss.backward(retain_graph=True)
            (slope,) = torch.autograd.grad(model(x).sum(), x, create_graph=True)
            slope.square().sum().backward()
            for old in kept:
                old.backward()
            kept = [untrained(torch.randn(2, 8)).sum()]
            updates.step()

    return program


class Failing(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.inner(x)
        raise ValueError("no")


def _failing() -> Callable[[], None]:
    model = Failing()

    def program() -> None:
        for _ in range(2):
            with pytest.raises(ValueError, match="no"):
                model(torch.ones(2, 4))
            nn.functional.relu(torch.ones(3))

    return program


def _around() -> Callable[[], None]:
    class Doubling(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return func(*args, **(kwargs or {}))

    model = Net()

    def program() -> None:
        with Doubling():
            model(torch.randn(3, 8).half().float()).sum().backward()

    return program


class Odd(nn.Module):
    """Passes on whatever it is given, computed with once where that is a floating-point tensor."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2 if x.is_floating_point() else x


def _odd_tensors() -> Callable[[], None]:
    model = Odd()

    def program() -> None:
        model(torch.eye(3).to_sparse())
        model(torch.eye(3).to_sparse_csr())
        model(torch.empty(3, 0, requires_grad=True)).sum().backward()
        model(torch.ones(2, 2, device="meta", requires_grad=True))
        model(torch.tensor(3))
        model(torch.ones(3, dtype=torch.complex64, requires_grad=True).conj()).abs().sum().backward()
        model(torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]))
        model(nn.Parameter(torch.ones(3))).sum().backward()
        with torch.inference_mode():
            model(torch.ones(3))
        torch.func.vmap(model)(torch.ones(2, 3))
        torch.func.grad(lambda x: model(x).sum())(torch.ones(3))
        torch.func.jvp(model, (torch.ones(3),), (torch.ones(3),))
        freed = torch.ones(300)
        freed.untyped_storage().resize_(0)  # as FSDP does with parameters that are not needed just now
        nn.Identity()(freed.view(30, 10))

    return program


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of what torch.func imports
@pytest.mark.filterwarnings("ignore::UserWarning")  # sparse CSR and nested tensors are in beta
@pytest.mark.parametrize("make", [_nested, _again, _failing, _around, _odd_tensors])
@pytest.mark.parametrize("values", ["none", "sketch", "hash"])
def test_modules_and_their_gradients_are_noted_as_python_notes_them(
    recorded: Callable[..., Any], make: Callable[[], Callable[[], None]], values: str
) -> None:
    assert_same(*recorded(make, values=values))


def test_nothing_that_modules_are_given_is_kept_afterwards(
    module: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(loading._state, "module", module)
    model = Net()

    def run() -> list[weakref.ref[Any]]:
        x = torch.randn(3, 8, requires_grad=True) * 1
        y = model(x)
        y.sum().backward()
        return [weakref.ref(x), weakref.ref(y)]

    with record(tmp_path / "recording", values="stats"):
        references = [one for _ in range(3) for one in run()]
        alive = sum(one() is not None for one in references)
    gc.collect()
    assert alive == 0, "a graph keeps its hooks, and hooks their tensors"
    assert sys.getrefcount(model.a) < 10


def test_a_graph_may_be_freed_on_another_thread(module: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(loading._state, "module", module)
    model, graphs = Net(), []
    with record(tmp_path / "recording", values="none"):
        graphs += [model(torch.randn(3, 8)) for _ in range(5)]
        thread = threading.Thread(target=graphs.clear)
        thread.start()
        thread.join()
    assert len(Recording.open(tmp_path / "recording").rows(0)) > 0


def test_an_operator_that_raises_leaves_no_row(recorded: Callable[..., Any]) -> None:
    def program() -> None:
        x = torch.ones(3)
        with pytest.raises(RuntimeError):
            torch.mm(x, x)
        x.exp()

    assert_same(*recorded(lambda: program, values="stats"))


def test_threads_of_the_program_do_not_disturb(recorded: Callable[..., Any]) -> None:
    def program() -> None:
        x = torch.ones(300)
        threads = [threading.Thread(target=lambda: [torch.ones(9).exp() for _ in range(50)]) for _ in range(2)]
        for thread in threads:
            thread.start()
        for _ in range(20):
            x = x.cos()
        for thread in threads:
            thread.join()

    assert_same(*recorded(lambda: program, values="stats"))


def test_an_observer_that_fails_ends_the_recording_and_not_the_run(
    module: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(loading._state, "module", module)
    x = torch.ones(5, dtype=torch.float64)
    with record(tmp_path / "recording", values="stats") as session:
        monkeypatch.setattr(session.observer._fast._host, "notebook", None)
        assert [math.e] * 5 == pytest.approx(x.exp().tolist())
    assert "the observer failed" in Recording.open(tmp_path / "recording").ends[0].not_covered[0]


def test_afterwards_nothing_is_left(module: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(loading._state, "module", module)
    with record(tmp_path / "recording", values="none") as session:
        torch.ones(3).exp()
    assert session.observer._fast._host is None
    assert torch.zeros(2).exp().tolist() == [1.0, 1.0]


def test_an_emulated_device_is_left_to_python(module: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from jumar.capture.fast import host

    monkeypatch.setitem(loading._state, "module", module)
    monkeypatch.setattr(host, "_device_is_emulated", lambda: True)
    with record(tmp_path / "recording", values="none") as session:
        torch.ones(3).exp()
        assert session.observer._fast._host is None


def test_without_a_library_in_the_cache_a_short_recording_starts_no_compiler(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loading, "_state", {"module": None, "thread": None})
    monkeypatch.setattr(loading, "cached", lambda: False)
    monkeypatch.setattr(loading, "load", lambda: pytest.fail("nobody asked for it"))
    with record(tmp_path / "recording", values="none"):
        torch.ones(3).exp()
    assert loading._state["thread"] is None


def test_a_long_recording_compiles_beside_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "_state", {"module": None, "thread": None})
    monkeypatch.setattr(loading, "cached", lambda: False)
    monkeypatch.setattr(loading, "load", lambda: "module")
    monkeypatch.setattr(loading, "_PATIENCE_S", -1.0)
    monkeypatch.setenv(loading.SWITCH, "")
    loader = loading.Loader()
    assert loader.module() is None
    loader.module()
    loading._state["thread"].join()
    assert loader.module() == "module"


def test_a_compiler_that_fails_is_not_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def fails() -> Any:
        asked.append(1)
        raise CompilerError("no compiler")

    monkeypatch.setattr(loading, "_state", {"module": None, "thread": None})
    monkeypatch.setattr(loading, "cached", lambda: False)
    monkeypatch.setattr(loading, "load", fails)
    monkeypatch.setattr(loading, "_PATIENCE_S", -1.0)
    monkeypatch.setenv(loading.SWITCH, "")
    loader = loading.Loader()
    assert [loader.module() for _ in range(2)] == [None, None]
    loading._state["thread"].join()
    assert (loader.module(), asked) == (None, [1])


def test_every_function_of_the_table_is_passed_on_but_dispatch() -> None:
    header = """struct C10_API PyInterpreterVTable {
      virtual ~PyInterpreterVTable() = default;
      // a comment
      virtual size_t refcnt(PyObject* pyobj) const = 0;
      virtual void dispatch(const c10::OperatorHandle& op, torch::jit::Stack* stack)
          const = 0;
      virtual bool is_contiguous(const TensorImpl* self, at::MemoryFormat) const = 0;
    };
    struct C10_API PyInterpreter {"""
    lines = [line.strip() for line in loading.forwarding_table(header).splitlines() if "override" in line]
    assert lines == [
        "size_t refcnt(PyObject* a0) const override { return original->refcnt(a0); }",
        "void dispatch(const c10::OperatorHandle& a0, torch::jit::Stack* a1) const override "
        "{ return jumar::dispatch(a0, a1); }",
        "bool is_contiguous(const TensorImpl* a0, at::MemoryFormat a1) const override "
        "{ return original->is_contiguous(a0, a1); }",
    ]
