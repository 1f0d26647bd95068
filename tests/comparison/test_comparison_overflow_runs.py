"""Runs that overflow, forward and backward, in three types: the operator is named, masks and the like are not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional

from jumar.capture import record
from jumar.comparison.overflow import Origin, OverflowOptions, OverflowReport, find_overflow
from jumar.show.compare.overflow import overflow_text

Tensor = torch.Tensor
NEGATIVE = float("-inf")


def report_of(folder: Path, model: nn.Module, steps: Callable[[], Any], **options: Any) -> OverflowReport:
    values = options.pop("values", "stats")
    with record(str(folder / "run"), model=model, values=values):
        steps()
    return find_overflow(folder / "run", options=OverflowOptions(**options))


class Net(nn.Module):
    """A linear layer, `formula` on what it gives, and the sum as the loss."""

    def __init__(self, formula: Callable[[Tensor], Tensor], dtype: torch.dtype = torch.float32) -> None:
        super().__init__()
        self.body = nn.Linear(4, 4, bias=False, dtype=dtype)
        with torch.no_grad():
            self.body.weight.copy_(torch.eye(4))
        self.formula = formula

    def forward(self, x: Tensor) -> Tensor:
        return self.formula(self.body(x))


def trained(
    folder: Path, formula: Callable[[Tensor], Tensor], x: Tensor | None = None, **options: Any
) -> OverflowReport:
    x = torch.tensor([[0.0, 1.0, 2.0, 3.0]]) if x is None else x
    model = Net(formula, x.dtype)
    optimizer = torch.optim.SGD(model.parameters(), 1e-3)

    def step() -> None:
        model(x).float().sum().backward()
        optimizer.step()

    return report_of(folder, model, step, **options)


def first(report: OverflowReport) -> Origin:
    assert report.first is not None, report.headline
    return report.first


# -- what is found ------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:var... degrees of freedom")
@pytest.mark.parametrize(
    ("formula", "operator", "phase", "cause"),
    [
        (
            lambda y: torch.exp(y * 100),
            "aten::exp",
            "forward",
            "exp of 300 leaves float32, whose greatest argument is 88.72",
        ),
        (lambda y: (y * 0) / (y * 0), "aten::div.Tensor", "forward", "0 / 0"),
        (lambda y: 1 / y, "aten::reciprocal", "forward", "a division by zero"),
        (lambda y: torch.log(y - 1), "aten::log", "forward", "the logarithm of a negative number (-1)"),
        (torch.sqrt, "aten::div.Tensor", "backward", "the derivative of aten::sqrt on that line"),
        (lambda y: torch.sqrt(y - 2), "aten::sqrt", "forward", "sqrt of a negative number (-2)"),
        (lambda y: y.pow(0.5), "aten::pow.Tensor_Scalar", "backward", "the power -0.5 of 0"),
        (lambda y: y.var(0), "aten::var.correction", "forward", "the variance of one element"),
        (lambda y: (y * 1e30) * 1e30, "aten::mul.Tensor", "forward", "the greatest float32"),
        (lambda y: (y * 30000).half() * 2, "aten::_to_copy", "forward", "90000 does not fit into float16"),
        (torch.rsqrt, "aten::rsqrt", "forward", "rsqrt of 0"),
    ],
)
def test_the_operator_that_overflows_is_named_with_its_cause(
    tmp_path: Path, formula: Callable[[Tensor], Tensor], operator: str, phase: str, cause: str
) -> None:
    origin = first(trained(tmp_path, formula))
    assert (origin.operator, origin.phase) == (operator, phase)
    assert cause in origin.cause
    assert f"{Path(__file__).name}:" in origin.source


@pytest.mark.parametrize(
    ("dtype", "formula", "operator"),
    [
        (torch.float16, lambda y: (y * 2e4).sum(-1), "aten::sum.dim_IntList"),
        (torch.bfloat16, lambda y: (y * 1e38) * 10, "aten::mul.Tensor"),
        (torch.float32, lambda y: (y * 1e38) * 10, "aten::mul.Tensor"),
    ],
)
def test_each_type_has_its_own_end(tmp_path: Path, dtype: torch.dtype, formula: Any, operator: str) -> None:
    origin = first(trained(tmp_path, formula, torch.tensor([[0.0, 1.0, 2.0, 3.0]], dtype=dtype)))
    assert (origin.operator, origin.dtype) == (operator, str(dtype).removeprefix("torch."))


class Attention(nn.Module):
    def __init__(self, fault: str, mask: str) -> None:
        super().__init__()
        self.qkv, self.fault, self.mask = nn.Linear(8, 24), fault, mask
        self.register_buffer("added", torch.full((6, 6), NEGATIVE).triu(1))

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(x).split(8, -1)
        scores = q @ k.transpose(-2, -1)
        if self.mask == "added":
            scores = scores + self.added
        elif self.mask == "where":
            scores = torch.where(self.added == 0, scores, NEGATIVE)
        else:
            scores = scores.masked_fill(self.added != 0, NEGATIVE)
        if self.fault == "exp":
            weights = torch.exp(scores * 3000)
        elif self.fault == "by hand":
            weights = torch.exp(scores - scores.amax(-1, keepdim=True))
        else:
            weights = torch.softmax(scores, -1)
        return x + (weights / weights.sum(-1, keepdim=True)) @ v


class Gpt(nn.Module):
    def __init__(self, faults: dict[int, str], mask: str) -> None:
        super().__init__()
        self.tokens, self.head = nn.Embedding(16, 8), nn.Linear(8, 16)
        self.blocks = nn.ModuleList(Attention(faults.get(layer, ""), mask) for layer in range(6))

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.tokens(tokens)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def gpt_report(folder: Path, faults: dict[int, str], mask: str, values: str = "stats") -> OverflowReport:
    torch.manual_seed(0)
    model = Gpt(faults, mask)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    tokens = torch.randint(0, 16, (2, 6))

    def step() -> None:
        functional.cross_entropy(model(tokens).flatten(0, 1), tokens.flatten()).backward()
        optimizer.step()

    return report_of(folder, model, step, values=values)


@pytest.mark.parametrize("values", ["stats", "tensors"])
@pytest.mark.parametrize("mask", ["filled", "added", "where"])
def test_an_overflow_behind_a_mask_is_named_and_the_mask_is_not(tmp_path: Path, mask: str, values: str) -> None:
    origin = first(gpt_report(tmp_path, {4: "exp"}, mask, values))
    assert (origin.operator, origin.module_path, origin.phase) == ("aten::exp", "blocks.4", "forward")
    assert "aten::div" in origin.turned_by or origin.num_nan


@pytest.mark.parametrize("mask", ["filled", "added", "where"])
@pytest.mark.parametrize("softmax", ["", "by hand"])
def test_a_healthy_masked_model_has_no_overflow(tmp_path: Path, mask: str, softmax: str) -> None:
    report = gpt_report(tmp_path, dict.fromkeys(range(6), softmax), mask)
    assert report.origins == ()
    assert report.num_benign > 0
    assert {origin.fate for origin in report.benign} <= {"absorbed", "unread"}
    assert report.headline.startswith("No overflow is used in 1 step (")


def test_a_row_that_is_masked_entirely_is_the_softmaxs_fault(tmp_path: Path) -> None:
    origin = first(trained(tmp_path, lambda y: y.masked_fill(y > -1, NEGATIVE).softmax(-1)))
    assert origin.operator == "aten::_softmax"
    assert "a row of 4 elements that are all -Inf" in origin.cause


# -- what came from outside ---------------------------------------------------------------------


def test_inf_in_the_batch_is_said_to_be_data(tmp_path: Path) -> None:
    report = trained(tmp_path, lambda y: y * 2, torch.tensor([[0.0, float("inf"), 2.0, 3.0]]))
    assert first(report).kind == "data"
    assert report.headline.startswith("The data are not finite: 1 Inf (of 4 elements)")
    assert [finding.code for finding in report.findings if finding.severity.label == "error"] == ["JM334"]


def test_nan_in_a_weight_is_said_to_be_the_checkpoint(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 2))
    with torch.no_grad():
        model[1].weight[0, 0] = float("nan")
    optimizer = torch.optim.SGD(model.parameters(), 1e-3)

    def step() -> None:
        model(torch.ones(2, 4)).sum().backward()
        optimizer.step()

    origin = first(report_of(tmp_path, model, step))
    assert (origin.kind, origin.module_path, origin.fate) == ("parameter", "1", "consumed")
    assert "checkpoint" in origin.cause


# -- what does no harm --------------------------------------------------------------------------


def test_a_logarithm_of_zero_that_is_left_out_forward_is_blamed_only_for_its_gradient(tmp_path: Path) -> None:
    def formula(y: Tensor) -> Tensor:
        return torch.where(y > 0, y.log(), torch.zeros_like(y))

    origin = first(trained(tmp_path, formula))
    assert (origin.operator, origin.phase) == ("aten::div.Tensor", "backward")
    assert "the derivative of aten::log" in origin.cause


def test_a_logarithm_of_zero_without_a_gradient_does_no_harm(tmp_path: Path) -> None:
    def formula(y: Tensor) -> Tensor:
        return y + torch.where(y > 0, y.detach().log(), torch.zeros_like(y))

    report = trained(tmp_path, formula)
    assert report.origins == ()
    assert [(o.operator, o.fate, o.absorbed_by) for o in report.benign] == [
        ("aten::log", "absorbed", "aten::where.self")
    ]


def test_nan_in_padding_that_nobody_reads_does_no_harm(tmp_path: Path) -> None:
    def formula(y: Tensor) -> Tensor:
        padded = torch.cat([y, torch.full((1, 4), float("nan"))])
        return padded[:1] * 2

    report = trained(tmp_path, formula)
    assert report.origins == ()
    assert report.headline.startswith("No overflow is used")


def test_uninitialised_memory_counts_only_where_it_is_read(tmp_path: Path) -> None:
    def formula(y: Tensor) -> Tensor:
        memory = torch.empty(1, 4)
        memory.fill_(float("nan"))
        memory.copy_(y)
        return memory * 2

    assert trained(tmp_path, formula).origins == ()


def test_an_inf_of_the_program_that_becomes_nan_is_named_where_it_does(tmp_path: Path) -> None:
    report = trained(tmp_path, lambda y: y.masked_fill(y > 2, NEGATIVE) * 0)
    origin = first(report)
    assert (origin.kind, origin.operator) == ("constant", "aten::masked_fill.Scalar")
    assert origin.turned_by.startswith("aten::mul.Tensor in outside any module") or "aten::mul" in origin.turned_by
    assert report.headline.startswith("An Inf that the program put there is used: aten::mul.Tensor")


# -- loss scaling -------------------------------------------------------------------------------


def scaled(folder: Path, init_scale: float, num_steps: int, formula: Callable[[Tensor], Tensor]) -> OverflowReport:
    model = Net(formula)
    optimizer = torch.optim.SGD(model.parameters(), 1e-6)
    scaler = torch.amp.GradScaler("cpu", init_scale=init_scale)
    x = torch.tensor([[0.5, 1.0, 2.0, 3.0]])

    def steps() -> None:
        for _ in range(num_steps):
            optimizer.zero_grad()
            with torch.autocast("cpu", torch.float16):
                loss = model(x).float().mean()
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()

    return report_of(folder, model, steps)


def test_gradients_that_only_the_loss_scale_makes_overflow_are_no_finding(tmp_path: Path) -> None:
    report = scaled(tmp_path, 2.0**19, 6, lambda y: y)
    assert report.origins == ()
    assert 0 < len(report.skips) < 6
    assert "loss-scale" in {origin.fate for origin in report.benign}
    assert "training goes on" in report.headline
    assert [finding.code for finding in report.findings] == ["JM331"]


def test_an_overflow_in_the_forward_pass_is_one_however_often_the_scaler_skips(tmp_path: Path) -> None:
    report = scaled(tmp_path, 8.0, 4, lambda y: y * 60000 * 60000)
    assert (first(report).operator, first(report).phase) == ("aten::mul.Tensor", "forward")
    assert {"JM330", "JM332"} <= {finding.code for finding in report.findings}


# -- atomic additions ---------------------------------------------------------------------------


def added(y: Tensor) -> Tensor:
    target = torch.zeros(1, 1, dtype=y.dtype)
    return target.index_add(1, torch.zeros(4, dtype=torch.long), y * 2e4)


@pytest.mark.parametrize(("mode", "found"), [("all", True), ("atomic_overflow", True), ("aicore_overflow", False)])
def test_an_overflow_of_an_atomic_addition_has_a_mode_of_its_own(tmp_path: Path, mode: str, found: bool) -> None:
    x = torch.tensor([[1.0, 1.0, 2.0, 3.0]], dtype=torch.float16)
    report = trained(tmp_path, added, x, mode=mode)
    assert (report.first is not None) == found
    if found:
        assert (first(report).operator, first(report).is_atomic) == ("aten::index_add", True)


# -- the summary --------------------------------------------------------------------------------


def test_the_summary_starts_with_the_answer_and_is_short(tmp_path: Path) -> None:
    text = overflow_text(trained(tmp_path, lambda y: torch.exp(y * 100)))
    assert text.startswith("The first operator that makes Inf of finite values, and it is used, is aten::exp")
    assert len(text.splitlines()) <= 15


def test_the_frames_end_at_the_origin_with_its_magnitudes(tmp_path: Path) -> None:
    report = trained(tmp_path, lambda y: torch.exp(y * 100))
    assert [frame.operator for frame in report.frames[-2:]] == ["aten::mul.Tensor", "aten::exp"]
    assert (report.frames[-1].greatest_input, report.frames[-1].num_nonfinite) == (300.0, 3)
    assert len(trained(tmp_path / "b", lambda y: torch.exp(y * 100), num_frames=1).frames) == 1
