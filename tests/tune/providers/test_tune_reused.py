"""Outputs in the memory of earlier ones: only of those that nobody holds any more."""

from __future__ import annotations

import threading

import pytest
import torch
from provider_contract import ProviderContract
from tune_builders import MACHINE, mm_task, spec

from jumar.tune.graph.operators import task_from
from jumar.tune.measure.worker.trial import Case
from jumar.tune.model.errors import TuneError
from jumar.tune.model.task import Task
from jumar.tune.providers.reused import GREATEST_BUFFERS, Reused, greatest_output_bytes


def softmax() -> Task:
    return task_from("aten::softmax.int", {"self": spec(2048, 1024), "dim": -1})


def layer_norm() -> Task:
    given = {"input": spec(1024, 2048), "normalized_shape": [2048], "weight": spec(2048), "bias": None, "eps": 1e-5}
    return task_from("aten::native_layer_norm", given)


def applied(task: Task, folder):
    case = Case(task)
    return case, Reused().apply(Reused().policy(), case.plain, case.site(folder, 1).example, case.site(folder, 1))


class TestReused(ProviderContract):
    @pytest.fixture
    def provider(self):
        return Reused()

    @pytest.fixture
    def tasks(self):
        weight = {"weight": spec(2048, 16), "bias": None}
        return [softmax(), layer_norm(), task_from("aten::linear", {"input": spec(1024, 16)} | weight)]


def test_memory_is_taken_again_only_once_nobody_holds_the_output_or_a_view_of_it(tmp_path):
    case, function = applied(softmax(), tmp_path)
    first = function(*case.tensors)
    address, row = first.data_ptr(), first[3]
    del first
    second = function(*case.tensors)
    assert second.data_ptr() != address
    del row
    assert function(*case.tensors).data_ptr() == address
    assert torch.equal(second, case.plain(*case.tensors))


def test_no_more_than_a_few_outputs_stay_allocated(tmp_path):
    case, function = applied(softmax(), tmp_path)
    held = [function(*case.tensors) for _ in range(GREATEST_BUFFERS + 2)]
    assert len({output.data_ptr() for output in held}) == len(held)
    (kept,) = [cell.cell_contents for cell in function.__closure__ if isinstance(cell.cell_contents, list)
               and cell.cell_contents and isinstance(cell.cell_contents[0], list)]  # fmt: skip
    assert len(kept) <= GREATEST_BUFFERS


def test_small_outputs_are_left_alone_and_products_are_judged_by_rows_and_columns():
    assert Reused().candidates(mm_task(), MACHINE) == []
    outer = task_from("aten::mm", {"self": spec(4096, 1), "mat2": spec(1, 1024)})
    assert greatest_output_bytes(outer) == 4096 * 1024 * 4
    assert len(Reused().candidates(outer, MACHINE)) == 1


def test_an_operator_without_such_a_form_is_refused(tmp_path):
    dropout = task_from("aten::dropout", {"input": spec(4, 4), "p": 0.5, "train": False})
    case = Case(dropout)
    with pytest.raises(TuneError, match="no form that writes"):
        Reused().apply(Reused().policy(), case.plain, case.tensors, case.site(tmp_path, 1))


def test_memory_is_one_threads_own_until_its_results_are_handed_out(tmp_path, monkeypatch):
    case, function = applied(softmax(), tmp_path)
    other, plain, meddled = [torch.randn_like(one) for one in case.tensors], torch.Tensor.detach, []

    def detach(tensor):
        if not meddled:
            meddled.append(True)
            thread = threading.Thread(target=lambda: meddled.append(function(*other)))
            thread.start()
            thread.join()
        return plain(tensor)

    monkeypatch.setattr(torch.Tensor, "detach", detach)
    made = function(*case.tensors)
    monkeypatch.undo()
    assert torch.equal(made, case.plain(*case.tensors))
    assert torch.equal(meddled[1], case.plain(*other))


def test_memory_that_was_made_in_inference_mode_is_written_to_outside_of_it(tmp_path):
    case, function = applied(softmax(), tmp_path)
    with torch.inference_mode():
        address = function(*case.tensors).data_ptr()
    with torch.no_grad():
        assert function(*case.tensors).data_ptr() == address
