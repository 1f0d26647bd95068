"""Runs under other conditions: what is moved, what is not, and that everything is as before afterwards."""

from __future__ import annotations

import json

import pytest
import torch
from torch import nn

from jumar.base.errors import UsageError
from jumar.capture import record
from jumar.capture.notes.operators import operator_info
from jumar.capture.plans.plan import RecordPlan
from jumar.capture.session.session import Session
from jumar.capture.session.vary import is_untouched, moved, other_number, varied
from jumar.recording import Recording


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_every_element_moves_by_about_one_unit_in_the_last_place(dtype) -> None:
    x = torch.randn(500, dtype=torch.float64).to(dtype)
    relative = (moved(x).double() - x.double()) / x.double() / torch.finfo(dtype).eps
    assert ((relative.abs() >= 0.5) & (relative.abs() <= 2.0)).all()
    assert 200 < (relative > 0).sum() < 300


def test_zeros_infinities_and_integers_stay() -> None:
    x = torch.tensor([0.0, float("inf"), -float("inf")])
    assert torch.equal(moved(x), x)
    numbers = torch.arange(5)
    assert moved(numbers) is numbers


def test_signs_depend_on_the_place_alone() -> None:
    x, y = torch.randn(6, 7), torch.randn(7, 6)
    up = (moved(x) / x > 1).reshape(-1)
    assert torch.equal(up, (moved(y) / y > 1).reshape(-1))


def test_a_transposed_tensor_is_moved_in_logical_order() -> None:
    x = torch.randn(6, 7)
    assert torch.equal(moved(x.t()), moved(x.t().contiguous()))


def test_the_result_of_a_product_changes_by_rounding_and_running_statistics_are_still_written() -> None:
    torch.manual_seed(0)
    layer, norm, x = nn.Linear(64, 64), nn.BatchNorm1d(64), torch.randn(8, 64)
    plain = layer(x)
    with varied("ulp"):
        other = norm(layer(x))
        other.sum().backward()
    again = nn.BatchNorm1d(64)(plain)
    assert 0 < ((other - again).norm() / again.norm()).item() < 2e-6
    assert norm.running_mean is not None
    assert norm.running_mean.abs().max() > 0
    assert layer.weight.grad is not None


@pytest.mark.parametrize("operator", [torch.relu, torch.clone, lambda x: x.flip(0), lambda x: x[1:], torch.neg])
def test_operators_that_only_move_or_select_give_what_they_gave(operator) -> None:
    x = torch.randn(9, 3)
    plain = operator(x)
    with varied("ulp"):
        assert torch.equal(operator(x), plain)


@pytest.mark.parametrize("name", ["relu_", "cat", "index", "bernoulli", "empty_like", "is_same_size", "unsafe_chunk"])
def test_what_rounds_nothing_is_left_alone(name: str) -> None:
    packet = getattr(torch.ops.aten, name)
    assert is_untouched(operator_info(getattr(packet, packet.overloads()[0])))


@pytest.mark.parametrize("name", ["mm", "add", "native_dropout", "softmax"])
def test_what_calculates_is_not_left_alone(name: str) -> None:
    packet = getattr(torch.ops.aten, name)
    assert not is_untouched(operator_info(getattr(packet, packet.overloads()[0])))


def test_the_observer_sees_the_inputs_as_the_program_gave_them(tmp_path) -> None:
    x = torch.randn(4, 8)
    layer = nn.Linear(8, 8)
    for name, how in (("a", ""), ("b", "ulp")):
        with varied(how), record(str(tmp_path / name), model=layer, values="stats"):
            layer(x)
    mine, theirs = ([row for row in Recording.open(tmp_path / name).rows(0) if row.kind == "op"] for name in "ab")
    first, second = mine[-1], theirs[-1]
    assert first.name == second.name == "aten::addmm"
    assert [t.l2 for t in first.inputs] == [t.l2 for t in second.inputs]
    assert first.outputs[0].mean != second.outputs[0].mean


@pytest.mark.parametrize(("threads", "other"), [(1, 2), (2, 1), (3, 2), (16, 15)])
def test_another_number_of_threads_is_near(threads, other) -> None:
    assert other_number(threads) == other


def test_threads_that_the_program_asks_for_become_others() -> None:
    before = torch.get_num_threads()
    with varied("threads"):
        assert torch.get_num_threads() == other_number(before)
        torch.set_num_threads(4)
        assert torch.get_num_threads() == 3
    assert torch.get_num_threads() == before
    torch.set_num_threads(before)


def test_kernels_are_switched_back() -> None:
    before = torch.backends.mkldnn.enabled
    with varied("kernels"):
        assert not torch.backends.mkldnn.enabled
    assert torch.backends.mkldnn.enabled == before


def test_a_way_that_there_is_not_is_refused() -> None:
    with pytest.raises(UsageError, match="got 'luck'"), varied("luck"):
        pass
    with pytest.raises(UsageError, match="got luck"):
        RecordPlan(out="x", vary="luck")  # type: ignore[arg-type]


def test_a_recording_says_that_it_was_varied(tmp_path) -> None:
    session = Session(RecordPlan(out=str(tmp_path / "r"), vary="ulp", values="stats"), model=None)
    session.start()
    nn.Linear(4, 4)(torch.randn(2, 4))
    session.end("finished")
    assert json.loads((tmp_path / "r" / "run.json").read_text())["settings"]["vary"] == "ulp"
    assert torch._C._len_torch_dispatch_stack() == 0


def test_a_block_is_recorded_under_other_conditions_and_says_so(tmp_path) -> None:
    torch.manual_seed(0)
    layer, x = nn.Linear(64, 64), torch.randn(8, 64)
    for name, vary in (("usual", ""), ("moved", "ulp")):
        with record(tmp_path / name, vary=vary):
            layer(x)
    usual, other = (Recording.open(tmp_path / name) for name in ("usual", "moved"))
    assert (usual.info.settings.get("vary"), other.info.settings.get("vary")) == (None, "ulp")
    first, second = (next(row.outputs[0].l2 for row in each.rows(0) if row.kind == "module") for each in (usual, other))
    assert 0 < abs(first - second) < 1e-5 * first


def test_an_unknown_way_to_vary_a_block_is_refused(tmp_path) -> None:
    with pytest.raises(UsageError, match="threads, kernels or ulp"), record(tmp_path / "r", vary="weather"):
        pass
