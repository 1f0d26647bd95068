from __future__ import annotations

import json
from collections.abc import Callable

import pytest
import torch
from torch import nn

from jumar.recording import CallRow, Recording

Tensor = torch.Tensor


def parameters(recording: Recording, step: int = 0) -> dict[str, CallRow]:
    """The parameter rows of a step, by full name."""
    rows = [row for row in recording.rows(step) if row.kind == "parameter"]
    return {".".join(part for part in (row.module_path, row.name) if part): row for row in rows}


def trained(model: nn.Module, updates: torch.optim.Optimizer, num_steps: int = 1) -> Callable[[], None]:
    def run() -> None:
        for _ in range(num_steps):
            updates.zero_grad()
            model(torch.ones(2, 3)).square().sum().backward()
            updates.step()
        updates.zero_grad()  # set to None: the gradients are freed

    return run


def net() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 1))


@pytest.mark.parametrize("options", [{"foreach": False}, {"foreach": True}, {"fused": True}])
@pytest.mark.parametrize("kind", [torch.optim.AdamW, torch.optim.SGD])
def test_a_parameter_row_holds_the_gradient_that_was_read_and_the_value_afterwards(recorded, kind, options) -> None:
    model = net()
    updates = kind(model.parameters(), lr=0.1, **options)
    gradients: dict[str, Tensor] = {}
    updates.register_step_pre_hook(
        lambda *_: gradients.update(
            {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}
        )
    )
    recording = recorded(trained(model, updates, 3), values="tensors")
    rows = parameters(recording, 2)
    assert list(rows) == [name for name, _ in model.named_parameters()]
    for name, parameter in model.named_parameters():
        arrays = recording.tensors(rows[name])
        assert arrays["input.grad"].tolist() == gradients[name].tolist()
        assert arrays["output.0"].tolist() == parameter.tolist()


@pytest.mark.parametrize("levels", [("module",), ("op",), ("module", "op"), ("module", "op", "optimizer")])
def test_there_are_optimizer_and_parameter_rows_at_every_level(recorded, levels) -> None:
    model = net()
    recording = recorded(trained(model, torch.optim.SGD(model.parameters(), lr=0.1), 2), levels=levels)
    (row,) = [row for row in recording.rows(1) if row.kind == "optimizer"]
    assert (row.name, row.phase, row.source.partition(":")[0].endswith("test_capture_optimizers.py")) == (
        "SGD",
        "optimizer",
        True,
    )
    rows = parameters(recording, 1).values()
    assert [[tensor.name for tensor in (*row.inputs, *row.outputs)] for row in rows] == [["input.grad", "output.0"]] * 4
    assert all(tensor.l2 is not None for row in rows for tensor in (*row.inputs, *row.outputs))


def test_hyperparameters_are_arguments_with_one_item_a_group(recorded) -> None:
    model = net()
    groups = [{"params": model[0].parameters()}, {"params": model[1].parameters(), "lr": 0.5}]
    updates = torch.optim.SGD(groups, lr=torch.tensor(0.25), momentum=0.9)
    (row,) = [row for row in recorded(trained(model, updates)).rows(0) if row.kind == "optimizer"]
    arguments = json.loads(row.arguments)
    assert (arguments["lr"], arguments["momentum"]) == ([0.25, 0.5], [0.9, 0.9])
    assert "params" not in arguments


def test_a_parameter_without_a_gradient_has_its_value_only(recorded) -> None:
    model = net()
    unused = nn.Parameter(torch.full((2,), 3.0))
    updates = torch.optim.SGD([*model.parameters(), unused], lr=0.1)
    rows = parameters(recorded(trained(model, updates)))
    assert (rows["parameter"].inputs, rows["parameter"].outputs[0].mean) == ((), 3.0)


def test_a_shared_parameter_has_one_row_under_its_first_owner(recorded) -> None:
    model = net()
    model.append(nn.Linear(3, 3))
    model[2].weight = model[0].weight
    updates = torch.optim.SGD(model[:2].parameters(), lr=0.1)
    assert list(parameters(recorded(trained(model[:2], updates)))) == ["0.weight", "0.bias", "1.weight", "1.bias"]


def test_parameters_of_no_known_module_have_the_names_that_the_optimizer_knows(recorded) -> None:
    tensors = {"head.scale": nn.Parameter(torch.ones(2)), "shift": nn.Parameter(torch.zeros(2))}
    updates = torch.optim.SGD(tensors.items(), lr=0.1)

    def run() -> None:
        (torch.ones(2) * tensors["head.scale"] + tensors["shift"]).sum().backward()
        updates.step()

    assert list(parameters(recorded(run))) == ["head.scale", "shift"]


def test_an_optimizer_with_a_closure_has_read_the_last_gradients_it_computed(recorded) -> None:
    model = net()
    updates = torch.optim.LBFGS(model.parameters(), max_iter=3)
    seen: list[Tensor] = []

    def closure() -> Tensor:
        updates.zero_grad()
        loss: Tensor = model(torch.ones(2, 3)).square().sum()
        loss.backward()
        seen.append(model[0].weight.grad.clone())
        return loss

    recording = recorded(lambda: updates.step(closure), values="tensors")
    row = parameters(recording)["0.weight"]
    assert recording.tensors(row)["input.grad"].tolist() == seen[-1].tolist()
    assert recording.tensors(row)["output.0"].tolist() == model[0].weight.tolist()
    assert {row.phase for row in recording.rows(0) if row.name == "aten::addmm"} == {"forward"}


def test_each_optimizer_of_a_step_has_a_row_and_each_parameter_too(recorded) -> None:
    model = net()
    first, second = (torch.optim.SGD(part.parameters(), lr=0.1) for part in model)

    def run() -> None:
        for _ in range(2):
            model(torch.ones(2, 3)).sum().backward()
            second.step()
            first.step()

    recording = recorded(run)
    for step in (0, 1):
        assert [row.module_path for row in parameters(recording, step).values()] == ["1", "1", "0", "0"]
        assert [row.kind for row in recording.rows(step)].count("optimizer") == 2


def test_parameters_whose_update_was_skipped_have_rows_and_the_step_says_so(recorded) -> None:
    model = net()
    updates = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
    before = model[1].bias.item()

    def run() -> None:
        for value in (float("inf"), 1.0):
            updates.zero_grad()
            scaler.scale(model(torch.full((1, 3), value)).sum()).backward()
            scaler.step(updates)
            scaler.update()

    recording = recorded(run)
    infos = [recording.step_info(step) for step in (0, 1)]
    assert [(info.loss_scale, info.skipped) for info in infos] == [(4.0, True), (2.0, False)]
    assert parameters(recording, 0)["1.bias"].outputs[0].mean == pytest.approx(before)
    assert (
        parameters(recording, 0)["0.weight"].inputs[0].num_nan + parameters(recording, 0)["0.weight"].inputs[0].num_inf
    )
    assert [row.kind for row in recording.rows(0)].count("optimizer") == 0
    assert [row.kind for row in recording.rows(1)].count("optimizer") == 1


def test_a_step_knows_the_states_of_its_generators(recorded) -> None:
    model = net()
    recording = recorded(trained(model, torch.optim.SGD(model.parameters(), lr=0.1), 2))
    assert set(recording.step_info(1).rng) >= {"python", "cpu"}


def test_the_optimizers_operators_are_listed_in_the_first_recorded_step_and_have_values_on_demand(recorded) -> None:
    def rows(step: int, **options: object) -> list[CallRow]:
        model = net()
        recording = recorded(trained(model, torch.optim.SGD(model.parameters(), lr=0.1), 3), **options)
        return [row for row in recording.rows(step) if row.kind == "op" and row.phase == "optimizer"]

    names = {"aten::_foreach_add_.List", "aten::add_.Tensor"}
    listed = next(row for row in rows(0) if row.name in names)
    assert [tensor.l2 for tensor in listed.inputs] == [None] * len(listed.inputs)
    assert all(tensor.storage for tensor in listed.inputs)
    assert rows(1) == []
    assert rows(1, values="none") != []
    assert all(t.l2 is not None for row in rows(1, levels=("op", "optimizer")) for t in row.inputs)


def test_an_optimizer_that_writes_through_data_is_not_hidden_by_the_cache(recorded) -> None:
    class Plain(torch.optim.Optimizer):
        def __init__(self, params: object) -> None:
            super().__init__(params, {})

        def step(self, closure: object = None) -> None:  # type: ignore[override]
            for group in self.param_groups:
                for parameter in group["params"]:
                    parameter.data.add_(1.0)

    weight = nn.Parameter(torch.zeros(4))
    updates = Plain([weight])

    def run() -> None:
        for _ in range(3):
            (weight * 2).sum().backward()
            updates.step()

    recording = recorded(run)
    assert [parameters(recording, step)["parameter"].outputs[0].mean for step in range(3)] == [1.0, 2.0, 3.0]
    products = [row for step in range(3) for row in recording.rows(step) if row.name == "aten::mul.Tensor"]
    assert [row.inputs[0].mean for row in products if row.phase == "forward"] == [0.0, 1.0, 2.0]


def test_an_optimizer_that_raises_does_not_end_the_observation(recorded) -> None:
    model = net()
    updates = torch.optim.SGD(model.parameters(), lr=0.1)
    fails = torch.optim.SGD(model.parameters(), lr=0.1)
    fails.step = lambda *_: 1 / 0  # type: ignore[method-assign, assignment]

    def run() -> None:
        for _ in range(3):
            model(torch.ones(2, 3)).sum().backward()
            try:
                fails.step()
            except ZeroDivisionError:
                updates.step()

    assert [len(parameters(recorded(run), step)) for step in (1, 2)] == [4, 4]


def test_a_parameter_that_is_changed_between_steps_is_looked_at_again(recorded) -> None:
    weight = nn.Parameter(torch.ones(4))
    updates = torch.optim.SGD([weight], lr=0.0)
    changes: list[Callable[[], object]] = [
        lambda: None,
        lambda: weight.data.mul_(3),
        lambda: weight.detach().add_(1),
        lambda: setattr(weight, "data", torch.full((4,), 7.0)),
    ]

    def run() -> None:
        for change in changes:
            change()
            (weight * 2).sum().backward()
            updates.step()

    recording = recorded(run)
    products = [row for row in recording.iter_rows() if row.name == "aten::mul.Tensor" and row.phase == "forward"]
    assert [row.inputs[0].mean for row in products] == [1.0, 3.0, 4.0, 7.0]


def test_a_copy_has_the_statistics_of_what_it_was_copied_from(recorded) -> None:
    def run() -> None:
        base = torch.arange(12.0).view(3, 4)
        base[:, 1:3].clone().mul_(2)
        base[0].expand(5, 4).clone()

    first, second = [row for row in recorded(run).rows(0) if row.name == "aten::clone"]
    assert [(t.minimum, t.maximum, t.mean) for t in (first.inputs[0], first.outputs[0])] == [(1.0, 10.0, 5.5)] * 2
    assert [t.l2 for t in (*second.inputs, *second.outputs)] == pytest.approx([(5 * 14) ** 0.5] * 2)
