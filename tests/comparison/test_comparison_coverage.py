"""An agreement holds for what was compared: what stands against it, and what does not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from recording_builder import Run
from torch import nn
from torch.nn import functional

from jumar.capture import record
from jumar.comparison import Comparison, compare
from jumar.comparison.model.options import CompareOptions
from jumar.recording import RunEnd

Extra = Callable[[nn.Module, torch.optim.Optimizer], None]


@pytest.fixture(autouse=True)
def _one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def train(
    folder: Path,
    *,
    least: float = 0.02,
    before: Extra = lambda model, updates: None,
    after: Extra = lambda model, updates: None,
    num_steps: int = 2,
    checkpointed: bool = False,
    set_to_none: bool = True,
    steps: tuple[int, int] | None = None,
    optimizer: str = "SGD",
    **settings: object,
) -> Path:
    """Record a small training. `before` and `after` run beside each update of the parameters."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Linear(8, 3))
    updates = getattr(torch.optim, optimizer)(model.parameters(), lr=1e-2, **settings)
    batches = torch.rand(3, 5, 4) + 1.0  # greater than any `least`
    with record(str(folder), model=model, steps=steps):
        for number in range(num_steps):
            x = batches[number].clamp(min=least)
            out = torch.utils.checkpoint.checkpoint(model, x, use_reentrant=False) if checkpointed else model(x)
            loss = functional.cross_entropy(out, torch.arange(5) % 3)
            updates.zero_grad(set_to_none=set_to_none)
            loss.backward()
            before(model, updates)
            updates.step()
            after(model, updates)
    return folder


def average(*, in_place: bool) -> Extra:
    """Return a moving average of the weights, which no loss reads."""
    shadow: list[torch.Tensor] = []

    def step(model: nn.Module, updates: torch.optim.Optimizer) -> None:
        with torch.no_grad():
            if not shadow:
                shadow.extend(p.clone() for p in model.parameters())
            for place, p in enumerate(model.parameters()):
                if in_place:
                    shadow[place].mul_(0.9).add_(p, alpha=0.1)
                else:
                    shadow[place] = shadow[place] * 0.9 + p * 0.1

    return step


def clip(model: nn.Module, updates: torch.optim.Optimizer) -> None:
    nn.utils.clip_grad_norm_(model.parameters(), 1e6)  # greater than any norm here


def clamp_weights(model: nn.Module, updates: torch.optim.Optimizer) -> None:
    with torch.no_grad():
        for p in model.parameters():
            p.clamp_(-1e3, 1e3)


def log(model: nn.Module, updates: torch.optim.Optimizer) -> None:
    float(sum(p.detach().square().sum() for p in model.parameters()))


def stands_against(comparison: Comparison) -> list[object]:
    return [f.evidence["kind"] for f in comparison.findings if f.code == "JM317"]


DIFFERENT = {
    "an argument without effect": ({"least": 0.2}, "arguments"),
    "an average in place": ({"after": average(in_place=True)}, "calls"),
    "clipping without effect": ({"before": clip}, "calls"),
    "clamped weights without effect": ({"before": clamp_weights}, "calls"),
    "fewer steps": ({"num_steps": 1}, "steps"),
}


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("name", DIFFERENT)
def test_what_one_run_does_otherwise_is_no_agreement_though_no_value_differs(tmp_path, name, turned) -> None:
    settings, kind = DIFFERENT[name]
    sides = [train(tmp_path / "a"), train(tmp_path / "b", **settings)]
    comparison = compare(*(reversed(sides) if turned else sides))
    assert (comparison.status, comparison.first_divergence) == ("differ", None)
    assert stands_against(comparison) == [kind]
    assert "agree:" not in comparison.headline
    assert comparison.headline.startswith(f"The runs differ. {comparison.differences[0]}.")


HEALTHY = {
    "a figure for the log": {"after": log},
    "gradients set to zero": {"set_to_none": False},
    "a forward pass that is run again": {"checkpointed": True},
    "lists of parameters": {"foreach": True},
    "fewer steps, asked for": {"steps": (0, 1)},
}


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("name", HEALTHY)
def test_what_is_computed_in_another_way_is_an_agreement(tmp_path, name, turned) -> None:
    sides = [train(tmp_path / "a", foreach=False), train(tmp_path / "b", **{"foreach": False, **HEALTHY[name]})]
    comparison = compare(*(reversed(sides) if turned else sides))
    assert (comparison.status, stands_against(comparison)) == ("agree", []), comparison.headline


@pytest.mark.parametrize(
    ("one", "other"), [({"foreach": False}, {"fused": True}), ({"foreach": True}, {"fused": True})]
)
def test_implementations_of_an_optimizer_agree(tmp_path, one, other) -> None:
    comparison = compare(*(train(tmp_path / str(k), optimizer="AdamW", **s) for k, s in enumerate((one, other))))
    assert comparison.status == "agree", comparison.headline


def test_settings_of_an_optimizer_without_effect_yet_are_no_agreement(tmp_path) -> None:
    sides = (train(tmp_path / str(m), num_steps=1, momentum=m) for m in (0.9, 0.5))
    comparison = compare(*sides)  # momentum has no effect in the first step
    assert comparison.status != "agree"
    assert "settings" in stands_against(comparison)


def test_the_headline_names_what_was_compared(tmp_path) -> None:
    comparison = compare(train(tmp_path / "a"), train(tmp_path / "b"))
    coverage = comparison.coverage
    assert coverage.calls.is_whole
    assert coverage.calls.compared > 20
    assert [s.compared for s in (coverage.gradients, coverage.parameters, coverage.losses)] == [8, 8, 2]
    assert [coverage.steps.compared, coverage.ranks.compared] == [2, 1]
    assert "8 gradients, 8 parameters in 2 steps" in comparison.headline
    assert "every operator call has a partner" in comparison.headline
    assert comparison.to_json()["coverage"]["losses"] == {"compared": 2, "reference": 2, "target": 2}


def test_steps_without_a_loss_say_so(tmp_path) -> None:
    def infer(folder: Path) -> Path:
        torch.manual_seed(0)
        model = nn.Linear(2, 2)
        with record(str(folder), model=model), torch.no_grad():
            model(torch.ones(1, 2))
            model(torch.ones(1, 2))
        return folder

    comparison = compare(infer(tmp_path / "a"), infer(tmp_path / "b"))
    assert comparison.status == "agree"
    assert "no loss, no gradient and no parameter was compared" in comparison.headline


def test_steps_that_were_asked_for_are_named_in_the_headline(tmp_path) -> None:
    sides = train(tmp_path / "a"), train(tmp_path / "b", steps=(0, 1))
    assert "in 1 of the reference's 2 steps" in compare(*sides).headline
    options = CompareOptions(steps=(0, 1))
    assert " in 1 step " in compare(*sides, options=options).headline


def test_operators_without_any_partner_are_not_outvoted_by_parameters() -> None:
    def run(*names: str) -> Run:
        made = Run()
        x = np.ones((4, 4), np.float32)
        for name in names:
            x = made.call(name, [x], [x * 1.5])
        for number in range(9):
            made.parameter(f"weight{number}", np.ones(3, np.float32), np.ones(3, np.float32))
        return made

    comparison = compare(run("aten::relu", "aten::tanh"), run("aten::sinh", "my::own"))
    assert comparison.status != "agree"
    assert not any(word in comparison.headline for word in ("agree:", "The runs agree"))


@pytest.mark.parametrize(
    ("one", "other", "status"),
    [
        ({"min": 0.2}, {"min": 0.02}, "differ"),
        ({"min": 0.2}, {"min": 0.2 * (1 + 1e-7)}, "agree"),
        ({"min": 0.2}, {}, "differ"),
        ({"min": True}, {"min": False}, "differ"),
        ({"min": 3}, {"min": 4}, "differ"),
        ({"min": [1, 2]}, {"min": [1, 3]}, "differ"),
        ({"min": "tanh"}, {"min": "none"}, "differ"),
        ({"max": float("inf")}, {"max": 1e3}, "differ"),
        ({"min": float("-inf")}, {"min": -3.4e38}, "agree"),
        ({"min": 1.0, "device": "cuda:0"}, {"min": 1.0, "device": "npu:0"}, "agree"),
    ],
)
def test_arguments_stand_against_an_agreement_unless_they_differ_by_rounding(one, other, status) -> None:
    def run(arguments: dict[str, object]) -> Run:
        made = Run()
        x = np.ones((4, 4), np.float32)
        made.call("aten::clamp", [x], [x + 0.5], arguments=arguments)
        return made

    assert compare(run(one), run(other)).status == status


def checkpoint(folder: Path, name: str, **extents: int) -> Path:
    torch.save({key.replace("_", "."): torch.ones(extent) for key, extent in extents.items()}, folder / f"{name}.pt")
    return folder / f"{name}.pt"


@pytest.mark.parametrize("turned", [False, True])
def test_a_checkpoint_that_lacks_a_parameter_does_not_agree(tmp_path, turned) -> None:
    sides = [checkpoint(tmp_path, "a", a_weight=3, b_weight=2), checkpoint(tmp_path, "b", a_weight=3)]
    comparison = compare(*(reversed(sides) if turned else sides))
    side = "target" if turned else "reference"
    assert comparison.headline.startswith(f"The checkpoints differ. Only the {side} has the parameter b.weight.")
    assert comparison.coverage.calls.compared == 1


def test_equal_checkpoints_agree_and_other_shapes_do_not(tmp_path) -> None:
    first = checkpoint(tmp_path, "a", a_weight=3)
    assert compare(first, checkpoint(tmp_path, "b", a_weight=3)).headline.startswith(
        "The checkpoints agree: 1 parameter "
    )
    assert compare(first, checkpoint(tmp_path, "c", a_weight=4)).status == "diverge"


@pytest.mark.parametrize("turned", [False, True])
def test_a_folder_of_arrays_that_lacks_a_file_does_not_agree(tmp_path, turned) -> None:
    for folder, names in (("a", "xyz"), ("b", "xz")):
        (tmp_path / folder).mkdir()
        for name in names:
            np.save(tmp_path / folder / f"{name}.npy", np.arange(4.0))
    sides = [tmp_path / "a", tmp_path / "b"]
    comparison = compare(*(reversed(sides) if turned else sides))
    assert comparison.status == "differ"
    assert "has the tensor y" in comparison.headline


def test_a_rank_that_only_one_run_has_is_no_agreement_unless_it_was_left_out_on_purpose() -> None:
    def run(*ranks: int) -> Run:
        made = Run()
        for rank in ranks:
            x = np.full((4, 4), 1.0 + rank, np.float32)
            made.call("aten::tanh", [x], [np.tanh(x)], rank=rank)
        return made

    comparison = compare(run(0, 1), run(0))
    assert (comparison.status, stands_against(comparison)) == ("differ", ["steps"])
    named = compare(run(0, 1), run(0), options=CompareOptions(rank_pairs=((0, 0),)))
    assert named.status == "agree"


@pytest.mark.parametrize(
    ("status", "asked", "expected"),
    [
        ("finished", None, "differ"),
        ("raised", None, "differ"),
        ("stopped", None, "agree"),
        ("finished", (0, 1), "agree"),
    ],
)
def test_steps_that_a_run_did_not_make_are_told_from_steps_that_nobody_asked_for(status, asked, expected) -> None:
    def run(num_steps: int) -> Run:
        made = Run()
        for step in range(num_steps):
            x = np.ones((4, 4), np.float32)
            made.call("aten::tanh", [x], [np.tanh(x)], step=step)
        return made

    target = run(1)
    target.ends[0] = RunEnd(rank=0, status=status)
    target.info = replace(target.info, steps=asked)
    comparison = compare(run(2), target)
    assert comparison.status == expected
    assert "1 of the reference's 2 steps" in comparison.headline


@pytest.mark.parametrize("values", ["stats", "tensors"])
@pytest.mark.parametrize("at", [0, 1])
def test_dumps_that_do_not_tell_where_values_come_from_show_other_data_and_missing_calls(values, at) -> None:
    def run(factor: float, noise: float = 0.0) -> Run:
        made = Run(values=values)
        x = np.random.default_rng(0).standard_normal((8, 8)).astype(np.float32) * np.float32(1 + noise)
        for number in range(3):
            x = x * np.float32(factor) if number == at else x
            x = made.call("torch::tanh", [x.copy()], [np.tanh(x)])
        made.forget_storages()
        return made

    assert compare(run(1.0), run(1.0, noise=1e-7)).status == "agree"
    comparison = compare(run(1.0), run(1.1))
    assert (comparison.status, stands_against(comparison)) == ("differ", ["inputs"])
