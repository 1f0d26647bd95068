"""What a comparison says of small trainings that differ in one thing, each made and recorded here."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn import functional

from jumar.capture import record
from jumar.comparison import Comparison, compare
from jumar.comparison.diagnosis import Diagnosis, diagnose
from jumar.comparison.diagnosis.signatures import hypotheses_from_rows
from jumar.recording.schema import TensorRow
from jumar.recording.sketch import sketch_of

Forward = Callable[[torch.Tensor], torch.Tensor]


def train(make: Callable[[], tuple[list[nn.Parameter], Forward]], steps: int = 3, python_seed: int = 0) -> None:
    """Train as a script would: seeds, the model and the data are made within the first step."""
    torch.manual_seed(0)
    random.seed(python_seed)
    parameters, forward = make()
    optimizer = torch.optim.SGD(parameters, lr=0.1)
    data = torch.Generator().manual_seed(1)
    for _ in range(steps):
        loss = forward(torch.randint(1, 20, (4, 6), generator=data))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def compared(folder: Path, reference: Callable[[], None], target: Callable[[], None]) -> tuple[Comparison, Diagnosis]:
    paths = folder / "reference", folder / "target"
    for path, run in zip(paths, (reference, target), strict=True):
        with record(path):
            run()
    comparison = compare(*paths)
    return comparison, diagnose(comparison, *paths)


def kinds(diagnosis: Diagnosis) -> set[str]:
    return {one.hypothesis.kind for one in diagnosis.suspicions}


def padded(padding: int | None) -> Callable[[], tuple[list[nn.Parameter], Forward]]:
    """A model whose loss never depends on the row of the padding."""

    def make() -> tuple[list[nn.Parameter], Forward]:
        table, head = nn.Embedding(20, 8, padding_idx=padding), nn.Linear(8, 20)

        def forward(tokens: torch.Tensor) -> torch.Tensor:
            tokens = torch.cat([tokens[:, :4], torch.zeros_like(tokens[:, 4:])], 1)
            states = table(tokens)[:, :4]
            return functional.cross_entropy(head(states).flatten(0, 1), tokens[:, :4].flatten())

        return [*table.parameters(), *head.parameters()], forward

    return make


def test_a_weight_that_one_run_set_to_zero_is_named_though_no_loss_depends_on_it(tmp_path: Path) -> None:
    comparison, _ = compared(tmp_path, lambda: train(padded(0)), lambda: train(padded(None)))
    first = comparison.first_divergence
    assert first is not None, comparison.headline
    assert (first.name, first.phase, first.step) == ("aten::fill_.Scalar", "forward", 0)
    assert all(pair.error == 0 for pair in comparison.losses)


def scaled(factor: float) -> Callable[[], tuple[list[nn.Parameter], Forward]]:
    def make() -> tuple[list[nn.Parameter], Forward]:
        table = nn.Embedding(20, 8)
        return list(table.parameters()), lambda tokens: (table(tokens) * factor).square().mean()

    return make


def test_a_factor_that_differs_is_an_argument_and_no_scale_beside_it(tmp_path: Path) -> None:
    comparison, diagnosis = compared(tmp_path, lambda: train(scaled(0.5)), lambda: train(scaled(0.25)))
    assert comparison.first_divergence is not None
    assert [argument.name for argument in comparison.first_divergence.arguments] == ["other"]
    assert kinds(diagnosis) == {"arguments"}


def branching() -> tuple[list[nn.Parameter], Forward]:
    table = nn.Embedding(20, 8)

    def forward(tokens: torch.Tensor) -> torch.Tensor:
        states = table(tokens)
        for _ in range(8):
            states = states.tanh() if random.random() < 0.5 else states.sin()
        mean: torch.Tensor = states.square().mean()
        return mean

    return list(table.parameters()), forward


@pytest.mark.parametrize("steps", [1, 3])
def test_branches_by_other_random_numbers_of_python_are_said_where_a_later_step_shows_them(
    tmp_path: Path, steps: int
) -> None:
    comparison, diagnosis = compared(
        tmp_path, lambda: train(branching, steps), lambda: train(branching, steps, python_seed=3)
    )
    assert comparison.status == "diverge"
    found = [one.hypothesis for one in diagnosis.suspicions if one.hypothesis.kind == "randomness"]
    assert [one.evidence["generators"] for one in found] == ([["python"]] if steps > 1 else [])


def test_runs_that_draw_the_same_numbers_of_python_are_not_said_to_branch(tmp_path: Path) -> None:
    def with_more() -> tuple[list[nn.Parameter], Forward]:
        parameters, forward = branching()
        return parameters, lambda tokens: forward(tokens) + parameters[0].exp().sum()

    comparison, diagnosis = compared(tmp_path, lambda: train(branching), lambda: train(with_more))
    assert comparison.status == "diverge"
    assert "randomness" not in kinds(diagnosis)


def test_a_few_wrong_elements_among_many_are_not_said_to_be_the_same_in_other_places() -> None:
    def row(values: torch.Tensor) -> TensorRow:
        wide = values.double()
        return TensorRow(
            name="output.0", shape=tuple(values.shape), dtype="float32", device="cpu", stride=values.stride(),
            storage_offset=0, contiguous=True, minimum=wide.min().item(), maximum=wide.max().item(),
            mean=wide.mean().item(), l2=wide.norm().item(), num_nan=0, num_inf=0, sketch=sketch_of(values.numpy()),
        )  # fmt: skip

    good = torch.randn(32, 65, 65, generator=torch.Generator().manual_seed(0)).softmax(-1)
    bad = good.clone()
    bad.view(-1)[-5:] *= 0.5
    assert "layout" not in {one.kind for one in hypotheses_from_rows(row(good), row(bad))}
    assert "layout" in {one.kind for one in hypotheses_from_rows(row(good), row(good.flip(-1).contiguous()))}
    assert hypotheses_from_rows(row(good), row(torch.zeros_like(good))) == ()
