"""Recorded operators are executed again: own error, the reference's own, what was inherited."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import torch
from fault_models import Fault
from torch import nn
from torch.nn import functional

import jumar
from jumar.base.errors import RecordingError, UsageError
from jumar.comparison.replay import Replayed, replay
from jumar.comparison.replay.findings import find
from jumar.show.compare.replay import summary_text

Program = Callable[[], Any]


def recorded(folder: Path, program: Program, fault: Fault | None = None, **options: Any) -> Path:
    """Record the program in a folder of `folder`, with a wrong kernel below the observer if one is given."""
    path = folder / f"recording-{len(list(folder.iterdir()))}"
    torch.manual_seed(0)
    with fault or nullcontext(), jumar.record(path, values="tensors", **options):
        program()
    return path


def named(replayed: list[Replayed], name: str) -> Replayed:
    return next(row for row in replayed if row.row.name == name)


class Small(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 6, 3, padding=1), nn.BatchNorm2d(6)
        self.fc, self.drop = nn.Linear(6, 5), nn.Dropout(0.5)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        x = functional.relu(self.norm(self.conv(images)), inplace=True)
        return self.fc(self.drop(functional.gelu(x.mean((2, 3)))))


def train(num_steps: int = 1, foreach: bool = True) -> None:
    model = Small()
    optimizer = torch.optim.AdamW(model.parameters(), foreach=foreach)
    for _ in range(num_steps):
        loss = functional.cross_entropy(model(torch.randn(4, 3, 8, 8)), torch.tensor([0, 1, 2, 3]))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def wrong_gelu(func: Any, args: Any, kwargs: Any) -> torch.Tensor:
    return func(*args, approximate="tanh")


@pytest.fixture(scope="module")
def healthy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return recorded(tmp_path_factory.mktemp("healthy"), train, levels=("op", "module", "optimizer"))


@pytest.fixture(scope="module")
def faulty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return recorded(tmp_path_factory.mktemp("faulty"), train, Fault("aten::gelu", wrong_gelu))


def test_a_training_step_is_bit_identical_on_the_cpu_and_has_no_fault(healthy: Path) -> None:
    replayed = replay(healthy, on="cpu")
    known = [row for row in replayed if row.cause is None]
    assert [row.row.name for row in known if row.verdict != "agrees"] == []
    assert [row.row.name for row in known if not (row.on_difference and row.on_difference.bit_identical)] == []
    assert {row.precision for row in known} == {"float64"}
    names = {row.row.name for row in known}
    assert {
        "aten::convolution_backward",
        "aten::native_batch_norm",
        "aten::relu_",
        "aten::_foreach_add_.Scalar",
    } & names
    assert {row.cause for row in replayed} <= {None, "random", "no tensor result", "uninitialised"}


def test_a_wrong_kernel_is_the_only_fault(faulty: Path) -> None:
    replayed = replay(faulty)
    faults = [row for row in replayed if row.verdict == "own fault"]
    assert [row.row.name for row in faults] == ["aten::gelu"]
    assert faults[0].own_error is not None
    assert faults[0].tolerance is not None
    assert faults[0].own_error > 20 * faults[0].tolerance
    finding = find(replayed)[0]
    assert (finding.code, finding.where.operator, finding.confidence) == ("JM325", "aten::gelu", "certain")
    assert summary_text(replayed).startswith("1 operator of")


def test_beside_a_reference_what_follows_a_fault_is_inherited(faulty: Path, healthy: Path) -> None:
    replayed = replay(faulty, reference=healthy)
    gelu, after = named(replayed, "aten::gelu"), named(replayed, "aten::_log_softmax")
    assert gelu.verdict == "own fault"
    assert gelu.inherited == 0
    assert gelu.reference_error is not None
    assert gelu.ratio is not None
    assert gelu.reference_error < 2e-7
    assert gelu.ratio > 100
    assert after.verdict == "inherited"
    assert after.inherited is not None
    assert after.own_error is not None
    assert after.inherited > 10 * after.own_error
    codes = [finding.code for finding in find(replayed)]
    assert codes[:2] == ["JM325", "JM326"]


def test_other_arguments_are_told_from_inherited_errors(tmp_path: Path) -> None:
    x = torch.randn(32)
    mine = recorded(tmp_path, lambda: functional.gelu(x, approximate="tanh"))
    theirs = recorded(tmp_path, lambda: functional.gelu(x))
    row = named(replay(mine, reference=theirs), "aten::gelu")
    assert row.verdict == "other arguments"
    assert row.arguments == {"approximate": ("(default)", "tanh")}
    assert row.inherited == 0
    assert row.by_arguments is not None
    assert 1e-5 < row.by_arguments < 1e-2


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_a_cast_to_half_is_exact_when_it_rounds_to_nearest(tmp_path: Path, dtype: torch.dtype) -> None:
    x = torch.randn(256)
    row = named(replay(recorded(tmp_path, lambda: x.to(dtype)), on="cpu"), "aten::_to_copy")
    assert row.verdict == "agrees"
    assert row.own is not None
    assert row.own.outputs[0].max_ulps <= 0.5
    assert row.own.outputs[0].num_different == 0
    assert row.on_difference is not None
    assert row.on_difference.bit_identical


def test_an_overflowing_cast_agrees_as_infinity_and_saturation_is_a_fault(tmp_path: Path) -> None:
    x = torch.tensor([1.0, 7e4])
    overflowed = recorded(tmp_path, x.half)
    fault = Fault("aten::_to_copy", lambda f, a, k: f(*a, **k).clamp(max=65504))
    saturated = recorded(tmp_path, x.half, fault)
    assert named(replay(overflowed), "aten::_to_copy").verdict == "agrees"
    row = named(replay(saturated), "aten::_to_copy")
    assert row.verdict == "own fault"
    assert "saturated" in row.note


def test_comparing_with_a_scalar_uses_the_elements_dtype(tmp_path: Path) -> None:
    x = torch.tensor([0.1, 0.2])
    row = named(replay(recorded(tmp_path, lambda: x == 0.1)), "aten::eq.Scalar")
    assert row.verdict == "agrees"


def test_tensors_that_share_memory_share_it_again(tmp_path: Path) -> None:
    def program() -> None:
        x = torch.arange(8.0)
        x[:4].add_(x[4:])  # two parts of one storage, one written
        x.t_() if x.dim() > 1 else x.mul_(x)

    replayed = replay(recorded(tmp_path, program), on="cpu")
    assert all(row.on_difference and row.on_difference.bit_identical for row in replayed if row.cause is None)
    assert {"aten::add_.Tensor", "aten::mul_.Tensor"} <= {row.row.name for row in replayed}


def test_strides_are_restored_where_an_operator_needs_them(tmp_path: Path) -> None:
    x = torch.randn(6, 4)

    def program() -> None:
        x.t().view_as(x.t())
        torch.as_strided(x, (3, 2), (4, 2), 1).clone()

    replayed = replay(recorded(tmp_path, program), on="cpu")
    assert [row.cause for row in replayed] == [None] * len(replayed)
    assert all(row.on_difference and row.on_difference.bit_identical for row in replayed)


def test_a_view_beyond_its_input_is_refused(tmp_path: Path) -> None:
    x = torch.randn(8)
    row = named(replay(recorded(tmp_path, lambda: torch.as_strided(x[:2], (4,), (1,)).clone())), "aten::as_strided")
    assert (row.verdict, row.cause) == ("not replayable", "not recorded")


def test_dropout_is_replayed_from_its_mask_and_other_draws_are_not(tmp_path: Path) -> None:
    x = torch.ones(64, requires_grad=True)

    def program() -> None:
        torch.native_dropout(x, 0.25, True)
        torch.rand(3)

    replayed = replay(recorded(tmp_path, program), on="cpu")
    dropout = named(replayed, "aten::native_dropout")
    assert dropout.verdict == "agrees"
    assert dropout.own is not None
    assert [output.name for output in dropout.own.outputs] == ["output.0"]
    assert named(replayed, "aten::rand").cause == "random"


def test_an_ill_conditioned_solver_is_no_fault(tmp_path: Path) -> None:
    n = 8
    hilbert = 1.0 / (torch.arange(n)[:, None] + torch.arange(n)[None, :] + 1.0)
    program = lambda: torch.linalg.solve(hilbert, torch.ones(n))  # noqa: E731 - one expression
    row = named(replay(recorded(tmp_path, program)), "aten::_linalg_solve_ex")
    assert row.own_error is not None
    assert row.own_error > 1e-3
    assert row.verdict == "agrees"


def test_the_emulated_npu_shows_the_rounding_of_its_matrix_unit(tmp_path: Path) -> None:
    def program() -> None:
        a, b = torch.randn(8, 16).npu(), torch.randn(16, 8).npu()
        (a @ b).relu()

    with jumar.emulate("Ascend910A"):
        path = recorded(tmp_path, program)
    replayed = replay(path, on="npu", soc="Ascend910A")
    product = named(replayed, "aten::mm")
    assert product.verdict == "own fault"
    assert product.on_difference is not None
    assert product.on_difference.bit_identical
    assert named(replayed, "aten::relu").verdict == "agrees"


def test_operators_of_the_vendor_are_replayed_through_the_emulated_npu(tmp_path: Path) -> None:
    with jumar.emulate():
        import torch_npu

        path = recorded(tmp_path, lambda: torch_npu.npu_swiglu(torch.randn(4, 8).npu(), dim=-1))
    row = named(replay(path), "npu::npu_swiglu")
    assert row.verdict == "agrees"
    assert row.precision == "float32"  # the vendor's operator takes no float64
    assert row.note.startswith("no float64 kernel")


def test_rows_without_tensors_say_so(tmp_path: Path) -> None:
    model = nn.Linear(4, 4)
    path = recorded(tmp_path, lambda: model(torch.randn(2, 4)))
    h5 = next((path / "tensors").glob("*.h5"))
    import h5py

    with h5py.File(h5, "r+") as file:
        del file["op/forward/-/aten::addmm"]
    row = named(replay(path), "aten::addmm")
    assert (row.cause, row.verdict) == ("not recorded", "not replayable")
    assert find([row])[0].code == "JM327"


def test_patterns_choose_rows_by_key_name_and_step(healthy: Path) -> None:
    assert {row.row.name for row in replay(healthy, ["aten::gelu"])} == {"aten::gelu"}
    assert {row.row.module_path for row in replay(healthy, ["0:op/forward/norm/*"])} == {"norm"}
    with pytest.raises(UsageError, match=r"no operator of .* matches 1:\*"):
        replay(healthy, ["1:*"])


def test_a_recording_without_tensors_is_refused_in_one_sentence(tmp_path: Path) -> None:
    with jumar.record(tmp_path / "stats", values="stats"):
        torch.ones(2) + 1
    with pytest.raises(RecordingError, match="holds no tensors to replay from"):
        replay(tmp_path / "stats")


def test_an_operator_of_another_pytorch_is_not_replayable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from dataclasses import replace

    from jumar.comparison.replay.engine import Engine
    from jumar.recording import Recording

    recording = Recording.open(recorded(tmp_path, lambda: torch.ones(2).cos()))
    row = next(row for row in recording.rows(0) if row.name == "aten::cos")
    engine = Engine(recording)
    assert engine.row(replace(row, name="aten::not_there")).cause == "unknown operator"
    assert engine.row(replace(row, name="c10d::allreduce_")).cause == "collective"
    assert engine.row(replace(row, arguments='{"x": 1')).cause == "not recorded"


def test_zeros_without_memory_are_zeros() -> None:
    from jumar.comparison.replay.rebuilt.execute import on_host

    found = on_host(torch._efficientzerotensor((2, 3)))
    assert found.numpy().tolist() == [[0.0] * 3] * 2


def test_renamed_modules_still_find_their_partners(tmp_path: Path) -> None:
    torch.manual_seed(0)
    layers, x = [nn.Linear(8, 8) for _ in range(3)], torch.randn(4, 8)
    first, second = nn.Sequential(), nn.Sequential()
    for position, layer in enumerate(layers):
        first.add_module(f"block{position}", layer)
        second.add_module(f"layer{position}", layer)
    reference = recorded(tmp_path, lambda: first(x), levels=("op", "module"))
    target = recorded(tmp_path, lambda: second(x), levels=("op", "module"))
    rows = [row for row in replay(target, ["aten::addmm"], reference=reference) if row.cause is None]
    assert [row.inherited for row in rows] == [0.0] * 3
