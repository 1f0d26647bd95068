from __future__ import annotations

import contextlib

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint


def named(recording, name: str, step: int = 1) -> list:
    return [row for row in recording.rows(step) if row.name == name]


def test_recording_changes_no_bit_of_the_run(training, recorded) -> None:
    expected = training(4)
    losses: list[float] = []
    recorded(lambda: losses.extend(training(4)), values="tensors")
    assert losses == expected


def test_a_step_has_forward_backward_and_optimizer_rows_of_operators_and_modules(training, recorded) -> None:
    rows = recorded(training).rows(0)
    assert {row.phase for row in rows if row.kind == "op"} == {"forward", "backward", "optimizer"}
    assert {row.phase for row in rows if row.kind == "module"} == {"forward", "backward"}
    assert [row.seq for row in rows] == list(range(len(rows)))


def test_operators_carry_the_path_of_their_module(training, recorded) -> None:
    convolutions = named(recorded(training), "aten::convolution")
    assert [(row.module_path, row.module_type) for row in convolutions] == [
        ("conv1", "Conv2d"),
        ("layer1.0", "Conv2d"),
    ]


def test_backward_operators_carry_the_path_and_line_of_their_forward_operator(training, recorded) -> None:
    recording = recorded(training)
    forward = {row.module_path: row.source for row in named(recording, "aten::convolution")}
    backward = {row.module_path: row.source for row in named(recording, "aten::convolution_backward")}
    assert backward == forward
    assert set(backward) == {"conv1", "layer1.0"}


def test_gradients_that_reach_a_parameter_are_attributed_to_its_module(recorded) -> None:
    model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 1))
    updates = torch.optim.SGD(model.parameters(), lr=0.1)

    def accumulate() -> None:
        for _ in range(2):
            model(torch.ones(2, 3)).sum().backward()
        updates.step()

    rows = recorded(accumulate).rows(0)
    added = {row.module_path for row in rows if row.name == "aten::add_.Tensor" and row.phase == "backward"}
    assert added == {"0", "1"}


def test_inputs_are_what_the_operator_got_and_outputs_what_it_left(training, recorded) -> None:
    recording = recorded(training, values="tensors")
    (relu, _) = named(recording, "aten::relu_")
    arrays = recording.tensors(relu)
    assert (arrays["input.0"] < 0).any()
    assert (arrays["output.0"] == arrays["input.0"].clip(0)).all()
    assert relu.inputs[0].storage == relu.outputs[0].storage
    assert relu.inputs[0].minimum < 0 == relu.outputs[0].minimum


def test_tensors_that_share_memory_have_one_storage_number(training, recorded) -> None:
    (transpose, multiply) = [
        row
        for row in recorded(training).rows(1)
        if row.module_path == "fc" and row.phase == "forward" and row.kind == "op"
    ]
    assert (transpose.name, multiply.name) == ("aten::t", "aten::addmm")
    assert transpose.inputs[0].storage == transpose.outputs[0].storage == multiply.inputs[2].storage
    assert (transpose.outputs[0].stride, transpose.outputs[0].contiguous) == ((1, 144), False)


def test_arguments_are_json_by_schema_name(training, recorded) -> None:
    (row, _) = named(recorded(training), "aten::convolution")
    assert '"stride": [1, 1], "padding": [1, 1]' in row.arguments


def test_rows_name_the_line_of_the_users_code(training, recorded) -> None:
    (row, _) = named(recorded(training), "aten::convolution")
    assert row.source.startswith("conftest.py:") or row.source.startswith("tests/capture/conftest.py:")


def test_occurrences_count_calls_of_one_operator_at_one_place(training, recorded) -> None:
    rows = recorded(training).rows(1)
    keys = [row.key for row in rows]
    assert len(keys) == len(set(keys))
    places = {(row.kind, row.module_path, row.phase, row.name, row.occurrence) for row in rows}
    assert all(
        (row.kind, row.module_path, row.phase, row.name, row.occurrence - 1) in places for row in rows if row.occurrence
    )


def test_a_module_backward_row_holds_the_gradients_of_outputs_and_inputs(training, recorded) -> None:
    recording = recorded(training, values="tensors")
    (row,) = [row for row in named(recording, "BatchNorm2d") if row.phase == "backward"]
    assert [tensor.name for tensor in row.inputs + row.outputs] == ["grad_output.0", "grad_input.0"]
    (operator,) = named(recording, "aten::native_batch_norm_backward")
    assert (recording.tensors(row)["grad_input.0"] == recording.tensors(operator)["output.0"]).all()


def test_losses_are_recorded_for_every_step(training, recorded) -> None:
    losses: list[float] = []
    recording = recorded(lambda: losses.extend(training(3)), values="none")
    assert [(step, torch.tensor(loss).item()) for step, loss in enumerate(losses)] == recording.losses()


def test_gradient_accumulation_is_one_step_with_several_losses(training, recorded) -> None:
    recording = recorded(lambda: training(2, accumulate=3))
    assert recording.steps() == [0, 1]
    assert [row.occurrence for row in recording.rows(1) if row.kind == "loss"] == [0, 1, 2]


def test_running_statistics_that_change_silently_are_looked_at_again(training, recorded) -> None:
    (first, second) = named(recorded(lambda: training(2, accumulate=2)), "aten::native_batch_norm")
    running_mean = [next(tensor for tensor in row.inputs if tensor.name == "input.3") for row in (first, second)]
    assert running_mean[0].l2 != running_mean[1].l2


def test_writes_through_data_are_not_hidden_by_the_cache(recorded) -> None:
    weight = nn.Parameter(torch.ones(4))
    updates = torch.optim.SGD([weight], lr=0.1)

    def run() -> None:
        (weight * 2).sum().backward()
        weight.data.mul_(3)
        (weight * 2).sum().backward()
        updates.step()

    products = [row for row in recorded(run).rows(0) if row.name == "aten::mul.Tensor" and row.phase == "forward"]
    assert [row.inputs[0].mean for row in products] == [1.0, 3.0]


def test_freed_memory_that_is_given_out_again_is_another_storage(recorded) -> None:
    def run() -> None:
        for value in range(5):
            torch.full((1000,), float(value)).mul(2)

    rows = [row for row in recorded(run).rows(0) if row.name == "aten::mul.Tensor"]
    assert [row.inputs[0].mean for row in rows] == [0.0, 1.0, 2.0, 3.0, 4.0]
    assert len({row.inputs[0].storage for row in rows}) == 5


def test_outputs_of_operators_that_return_nothing_are_what_they_wrote(recorded) -> None:
    def run() -> None:
        torch._foreach_add_([torch.zeros(2), torch.ones(3)], 1.0)

    (row,) = [row for row in recorded(run).rows(0) if row.name == "aten::_foreach_add_.Scalar"]
    assert [(tensor.name, tensor.mean) for tensor in row.outputs] == [("output.0.0", 1.0), ("output.0.1", 2.0)]


def test_recomputed_activations_belong_to_the_backward_phase_of_their_module(recorded) -> None:
    model = nn.Sequential(nn.Linear(3, 3), nn.Tanh())
    updates = torch.optim.SGD(model.parameters(), lr=0.1)

    def run() -> None:
        checkpoint(model, torch.ones(2, 3), use_reentrant=False).sum().backward()
        updates.step()

    rows = [row for row in recorded(run).rows(0) if row.name == "aten::tanh"]
    assert [(row.phase, row.module_path) for row in rows] == [("forward", "1"), ("backward", "1")]


def test_second_derivatives_are_attributed_through_the_first(recorded) -> None:
    model = nn.Sequential(nn.Linear(3, 3), nn.Tanh())
    updates = torch.optim.SGD(model.parameters(), lr=0.1)

    def run() -> None:
        data = torch.ones(2, 3, requires_grad=True)
        (gradient,) = torch.autograd.grad(model(data).sum(), data, create_graph=True)
        gradient.pow(2).sum().backward()
        updates.step()

    rows = [row for row in recorded(run).rows(0) if row.name == "aten::tanh_backward"]
    assert [(row.phase, row.module_path) for row in rows] == [("backward", "1")] * len(rows)
    assert len(rows) >= 2


def test_autocast_is_noted_with_its_dtype(recorded) -> None:
    model = nn.Linear(3, 3)

    def run() -> None:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            model(torch.ones(2, 3))
            with torch.autocast("cpu", enabled=False):
                model(torch.ones(2, 3))
        torch.ones(2).exp()

    rows = recorded(run).rows(0) + recorded(run).rows(1)
    products = [row for row in rows if row.name == "aten::addmm"]
    assert [(row.autocast, row.outputs[0].dtype) for row in products[:2]] == [("bfloat16", "bfloat16"), ("", "float32")]
    assert [row.autocast for row in rows if row.name == "aten::exp"] == [""]


def test_durations_leave_out_the_observers_own_work(training, recorded) -> None:
    rows = recorded(training).rows(2)
    (root,) = [row for row in rows if row.kind == "module" and row.phase == "forward" and row.name == "ConvNet"]
    inside = [row for row in rows if row.kind == "op" and row.phase == "forward" and row.module_path]
    assert 0 < sum(row.duration_us for row in inside if row.module_path != "CrossEntropyLoss") <= root.duration_us
    starts = [row.start_us for row in rows if row.kind == "op"]
    assert starts == sorted(starts)


def test_module_level_alone_records_no_operator(training, recorded) -> None:
    rows = recorded(training, levels=("module",)).rows(1)
    assert {row.kind for row in rows} == {"module", "loss", "optimizer", "parameter"}
    (row,) = [row for row in rows if row.name == "Linear" and row.phase == "forward"]
    assert row.outputs[0].mean is not None


def test_operator_level_alone_still_knows_the_modules(training, recorded) -> None:
    rows = recorded(training, levels=("op",)).rows(1)
    assert {row.kind for row in rows} == {"op", "loss", "optimizer", "parameter"}
    assert "layer1.0" in {row.module_path for row in rows}


def test_a_forward_that_raises_leaves_the_module_paths_right(recorded) -> None:
    class Fails(nn.Module):
        def forward(self, data: torch.Tensor) -> torch.Tensor:
            raise ValueError("no")

    model = nn.Sequential(nn.Linear(2, 2))
    model.add_module("bad", Fails())

    def run() -> None:
        with contextlib.suppress(ValueError):
            model(torch.ones(1, 2))
        torch.ones(2).exp()
        model[0](torch.ones(1, 2))

    rows = recorded(run)
    everything = list(rows.iter_rows())
    assert [row.module_path for row in everything if row.name == "aten::exp"] == [""]
    assert [row.module_path for row in everything if row.name == "aten::addmm"] == ["0", "0"]


def test_tensors_on_other_threads_modules_are_said_to_be_not_covered(tmp_path) -> None:
    import threading

    from jumar.capture import record
    from jumar.recording import Recording

    model = nn.Linear(2, 2)
    with record(tmp_path / "r"):
        thread = threading.Thread(target=lambda: model(torch.ones(1, 2)), name="worker-7")
        thread.start()
        thread.join()
        model(torch.ones(1, 2))
    (sentence,) = Recording.open(tmp_path / "r").ends[0].not_covered
    assert "worker-7" in sentence


def test_keyword_arguments_and_nested_outputs_are_named(recorded) -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Linear(2, 2)

        def forward(self, *, mask: torch.Tensor, states: list[torch.Tensor]) -> dict[str, object]:
            return {"logits": self.fc(states[1]) * mask, "all": (states[0],)}

    model = Model()
    rows = recorded(lambda: model(mask=torch.ones(2), states=[torch.ones(2), torch.zeros(2)])).rows(0)
    (row,) = [row for row in rows if row.kind == "module" and row.name == "Model"]
    assert [tensor.name for tensor in row.inputs] == ["input.mask", "input.states.0", "input.states.1"]
    assert [tensor.name for tensor in row.outputs] == ["output.logits", "output.all.0"]


def test_a_probe_that_fails_ends_the_recording_and_not_the_run(training, tmp_path, monkeypatch) -> None:
    from jumar.capture import record
    from jumar.capture.probes import StatsProbe
    from jumar.recording import Recording

    expected = training(3)
    original = StatsProbe.on_tensor
    targets: list[int] = []  # seen once a step; how many steps a thread has written by then says nothing

    def fails_later(self, seen, tensor) -> None:
        if tensor.shape == (2,) and tensor.dtype == torch.int64:
            targets.append(len(targets))
            if targets == [0, 1]:
                raise RuntimeError("the probe is broken")
        original(self, seen, tensor)

    monkeypatch.setattr(StatsProbe, "on_tensor", fails_later)
    with record(tmp_path / "r"):
        losses = training(3)
    recording = Recording.open(tmp_path / "r")
    assert losses == expected
    assert recording.steps() == [0]
    assert "the probe is broken" in recording.ends[0].not_covered[0]
