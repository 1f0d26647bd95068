"""What a recording covers, one kind of program a test: it is in the rows, or the end says that it is not."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import (
    nn,
    relu,  # imported before any recording starts
)
from torch.nn.functional import linear as linear_imported_before
from torch.utils.checkpoint import checkpoint

from jumar.base.errors import OutputError, UsageError
from jumar.capture import record
from jumar.device import emulate
from jumar.recording import CallRow, Recording


def names(recording: Recording, step: int = 0) -> list[str]:
    return [row.name for row in recording.rows(step) if row.kind == "op"]


def rows_of(recording: Recording, name: str) -> list[CallRow]:
    return [row for step in recording.steps() for row in recording.rows(step) if row.name == name]


def test_operators_that_were_imported_before_the_recording_are_recorded(recorded) -> None:
    found = names(recorded(lambda: linear_imported_before(relu(torch.ones(2, 3)), torch.ones(4, 3))))
    assert "aten::relu" in found
    assert {"aten::linear", "aten::mm", "aten::matmul"} & set(found)


def test_a_recording_that_starts_inside_a_module_call_holds_the_rest_of_it(tmp_path: Path) -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.Linear(2, 2), nn.Linear(2, 2)

        def forward(self, data: torch.Tensor) -> torch.Tensor:
            hidden = self.first(data)
            with record(tmp_path / "r", model=self):
                result: torch.Tensor = self.second(hidden)
            return result

    Model()(torch.ones(1, 2))
    (row,) = rows_of(Recording.open(tmp_path / "r"), "aten::addmm")
    assert row.module_path == "second"


def test_in_place_and_out_operators_show_what_they_got_and_what_they_left(recorded) -> None:
    def run() -> None:
        data, target = torch.full((3,), 2.0), torch.zeros(3)
        data.mul_(3)
        torch.add(data, 1, out=target)

    recording = recorded(run)
    (product,) = rows_of(recording, "aten::mul_.Tensor")
    (total,) = rows_of(recording, "aten::add.out")
    assert (product.inputs[0].mean, product.outputs[0].mean) == (2.0, 6.0)
    assert [(tensor.name, tensor.mean) for tensor in total.outputs] == [("output.0", 7.0)]


@pytest.mark.parametrize("reentrant", [True, False])
def test_recomputed_activations_are_rows_of_the_backward_phase(recorded, reentrant: bool) -> None:
    model = nn.Sequential(nn.Linear(3, 3), nn.Sigmoid())
    updates = torch.optim.SGD(model.parameters(), lr=0.1)

    def run() -> None:
        data = torch.ones(2, 3, requires_grad=True)
        checkpoint(model, data, use_reentrant=reentrant).sum().backward()
        updates.step()

    found = rows_of(recorded(run), "aten::sigmoid")
    assert [(row.phase, row.module_path) for row in found] == [("forward", "1"), ("backward", "1")]


def test_several_backward_passes_of_one_step_are_told_apart(recorded) -> None:
    model = nn.Linear(2, 1)
    updates = torch.optim.SGD(model.parameters(), lr=0.1)

    def run() -> None:
        loss = model(torch.ones(1, 2)).sum()
        loss.backward(retain_graph=True)
        loss.backward()
        updates.step()

    recording = recorded(run)
    assert [row.occurrence for row in rows_of(recording, "loss")] == [0, 1]
    assert [row.occurrence for row in rows_of(recording, "Linear") if row.phase == "backward"] == [0, 1]


def test_gradients_of_gradients_are_rows_of_the_backward_phase(recorded) -> None:
    def run() -> None:
        data = torch.ones(3, requires_grad=True)
        (first,) = torch.autograd.grad((data.sin()).sum(), data, create_graph=True)
        first.sum().backward()

    assert {row.phase for row in rows_of(recorded(run), "aten::neg")} == {"backward"}


def test_functions_of_torch_func_are_recorded_by_the_operators_below_their_transforms(recorded) -> None:
    def run() -> None:
        torch.func.grad(lambda x: (x.sin() * 2).sum())(torch.ones(3))
        torch.vmap(torch.exp)(torch.ones(2, 3))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # PyTorch scripts its decompositions, which it has deprecated
            torch.func.jvp(torch.cos, (torch.ones(2),), (torch.ones(2),))

    found = names(recorded(run))
    assert {"aten::sin", "aten::exp", "aten::cos"} <= set(found)


class _Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, data: torch.Tensor) -> torch.Tensor:
        return data.mul(2)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:  # type: ignore[override]
        return gradient.mul(2)


def test_custom_functions_are_recorded_by_their_operators_in_both_phases(recorded) -> None:
    class Model(nn.Module):
        def forward(self, data: torch.Tensor) -> torch.Tensor:
            result: torch.Tensor = _Doubled.apply(data)
            return result

    def run() -> None:
        Model()(torch.ones(2, requires_grad=True)).sum().backward()

    found = rows_of(recorded(run), "aten::mul.Tensor")
    assert [row.phase for row in found] == ["forward", "backward"]
    assert {row.module_type for row in found} == {"Model"}


def test_operators_of_a_library_are_recorded_under_their_own_name(recorded) -> None:
    with torch.library._scoped_library("jumar_coverage", "FRAGMENT") as library:
        library.define("thrice(Tensor data, float by=3.0) -> Tensor")
        library.impl("thrice", lambda data, by=3.0: data * by, "CPU")
        recording = recorded(lambda: torch.ops.jumar_coverage.thrice(torch.ones(2), 3.5))
    (row,) = rows_of(recording, "jumar_coverage::thrice")
    assert (row.arguments, row.outputs[0].mean) == ('{"by": 3.5}', 3.5)


def test_sparse_quantized_and_nested_tensors_have_rows_and_no_values(recorded) -> None:
    def run() -> None:
        torch.eye(3).to_sparse() * 2
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # deprecated, and still used
            torch.quantize_per_tensor(torch.ones(3), 0.1, 0, torch.quint8).dequantize()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a prototype, says PyTorch
            for layout in (torch.jagged, torch.strided):
                torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], layout=layout).sin()

    recording = recorded(run)
    assert recording.ends[0].not_covered == ()
    found = names(recording)
    assert "aten::quantize_per_tensor" in found
    (row,) = [row for row in rows_of(recording, "aten::mul.Tensor") if row.inputs[0].format == "SPARSE_COO"]
    assert row.outputs[0].l2 is None
    assert {row.outputs[0].shape for row in rows_of(recording, "aten::sin")} == {(2, -1)}
    assert {row.outputs[0].format for row in rows_of(recording, "aten::sin")} == {"NESTED"}


def test_parameters_that_a_lazy_module_has_not_initialised_are_nothing_to_stop_at(recorded) -> None:
    def run() -> None:
        nn.Sequential(nn.LazyLinear(2), nn.LazyBatchNorm1d())(torch.ones(3, 4)).sum().backward()

    recording = recorded(run)
    assert recording.ends[0].not_covered == ()
    (row,) = rows_of(recording, "aten::addmm")
    assert row.inputs[-1].shape == (4, 2)


def test_inference_mode_is_recorded_with_values(recorded) -> None:
    model = nn.Linear(2, 2)

    def run() -> None:
        with torch.inference_mode():
            model(torch.ones(1, 2)).exp()

    (row,) = rows_of(recorded(run), "aten::exp")
    assert row.outputs[0].mean is not None


def test_generators_and_coroutines_keep_the_paths_of_modules_right(recorded) -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Linear(2, 2)

        def pieces(self, data: torch.Tensor) -> Iterator[torch.Tensor]:
            for _ in range(2):
                yield self.fc(data)

        def forward(self, data: torch.Tensor) -> torch.Tensor:
            return torch.stack(list(self.pieces(data)))

    model = Model()

    async def together() -> None:
        async def one() -> None:
            await asyncio.sleep(0)
            model(torch.ones(1, 2))

        await asyncio.gather(one(), one())

    found = rows_of(recorded(lambda: asyncio.run(together())), "aten::addmm")
    assert [row.module_path for row in found] == ["fc"] * 4


def test_a_shared_module_and_one_called_twice_are_told_apart_by_occurrence(recorded) -> None:
    layer = nn.Linear(2, 2)
    model = nn.Sequential(layer, layer)

    found = rows_of(recorded(lambda: model(torch.ones(1, 2))), "aten::addmm")
    assert [(row.module_path, row.occurrence) for row in found] == [("0", 0), ("0", 1)]


def test_scripted_traced_and_exported_programs_are_recorded_by_their_operators(recorded) -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.Tanh()).eval()
    data = torch.ones(1, 2)
    exported = torch.export.export(model, (data,)).module()
    assert rows_of(recorded(lambda: exported(data)), "aten::tanh")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # both are deprecated, and still used
        scripted, traced = torch.jit.script(model), torch.jit.trace(model, data)
    for program in (scripted, traced):
        assert rows_of(recorded(lambda program=program: program(data)), "aten::tanh")


def test_an_exception_inside_forward_leaves_the_rows_before_it(recorded) -> None:
    class Fails(nn.Module):
        def forward(self, data: torch.Tensor) -> torch.Tensor:
            data.exp()
            raise ValueError("no")

    def run() -> None:
        with pytest.raises(ValueError, match="no"):
            Fails()(torch.ones(2))

    (row,) = rows_of(recorded(run), "aten::exp")
    assert row.module_type == "Fails"


def test_operators_of_threads_that_call_modules_are_said_to_be_not_covered(tmp_path: Path) -> None:
    import threading

    model = nn.Linear(2, 2)
    with record(tmp_path / "r"):
        thread = threading.Thread(target=lambda: model(torch.ones(1, 2)), name="other")
        thread.start()
        thread.join()
        model(torch.ones(1, 2))
    assert any("thread other" in sentence for sentence in Recording.open(tmp_path / "r").ends[0].not_covered)


def test_a_recording_within_a_recording_is_refused_and_the_outer_one_goes_on(tmp_path: Path) -> None:
    with record(tmp_path / "outer"):
        with pytest.raises(UsageError, match="under way"), record(tmp_path / "inner"):
            pass
        torch.ones(2).exp()
    assert "aten::exp" in names(Recording.open(tmp_path / "outer"))
    assert not (tmp_path / "inner").exists()


def test_a_second_run_into_the_same_folder_is_refused(tmp_path: Path) -> None:
    with record(tmp_path / "r"):
        torch.ones(2).exp()
    with pytest.raises(OutputError, match="already holds a recording"), record(tmp_path / "r"):
        pass
    assert "aten::exp" in names(Recording.open(tmp_path / "r"))


def test_random_operators_carry_the_state_they_draw_from_and_steps_that_of_all(recorded) -> None:
    def run() -> None:
        torch.manual_seed(0)
        torch.rand(2)
        torch.manual_seed(0)
        torch.randn(2)
        torch.ones(2).exp()

    recording = recorded(run)
    (uniform,), (normal,) = rows_of(recording, "aten::rand"), rows_of(recording, "aten::randn")
    assert uniform.rng == normal.rng != ""
    assert [row.rng for row in rows_of(recording, "aten::exp")] == [""]
    assert {"python", "cpu"} <= set(recording.step_info(0).rng)


def test_rows_say_whether_a_call_draws_and_whether_it_only_makes_a_view(recorded) -> None:
    def run() -> None:
        ones = torch.ones(2, 2)
        torch._standard_gamma(ones)
        torch.native_dropout(ones, 0.5, train=True)
        torch.native_dropout(ones, 0.5, train=False)
        ones.t().exp()

    recording = recorded(run)
    assert [row.draws for row in rows_of(recording, "aten::_standard_gamma")] == [True]
    assert [row.draws for row in rows_of(recording, "aten::native_dropout")] == [True, False]
    assert [(row.draws, row.is_view) for row in rows_of(recording, "aten::t")] == [(False, True)]
    assert [(row.draws, row.is_view) for row in rows_of(recording, "aten::exp")] == [(False, False)]


def test_rows_of_modules_do_not_say_whether_they_draw(recorded) -> None:
    recording = recorded(lambda: torch.nn.Dropout()(torch.ones(2)))
    (row,) = rows_of(recording, "Dropout")
    assert (row.draws, row.is_view) == (None, None)


@pytest.mark.parametrize("values", ["hash", "stats", "sketch", "tensors"])
@pytest.mark.parametrize("size", [2, 500_000])
def test_memory_that_was_looked_at_can_still_be_resized(recorded, values: str, size: int) -> None:
    data = [torch.ones(size), torch.ones(size, dtype=torch.bfloat16), torch.full((size,), torch.nan)]

    def run() -> None:
        for tensor in data:
            tensor.mul(2)

    recorded(run, values=values)
    assert [tensor.untyped_storage().resizable() for tensor in data] == [True, True, True]


def test_a_block_on_the_emulated_npu_names_the_chip_and_one_on_the_cpu_does_not(tmp_path: Path) -> None:
    with emulate(soc="Ascend310P3"):
        with record(tmp_path / "npu"):
            torch.ones(3, device="npu") * 2
        with record(tmp_path / "cpu"):
            torch.ones(3, device="cpu") * 2
    npu, cpu = (Recording.open(tmp_path / name).info for name in ("npu", "cpu"))
    assert (npu.device, npu.soc) == ("npu (emulated)", "Ascend310P3")
    assert (cpu.device.startswith("npu"), cpu.soc) == (False, "")
