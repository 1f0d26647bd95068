"""`torch.compile(backend="jumar")`: inference and training by the bank's plans, and untuned where there is none."""

from __future__ import annotations

import copy
import gc
import logging
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from backend_models import EAGER, Net, fill_bank, net_inputs
from plan_models import Plain, exported
from torch import nn

from jumar.tune.backend import entry, knowledge
from jumar.tune.backend.collect import Collected, read_collected
from jumar.tune.backend.compilation import Compilation
from jumar.tune.bank.location import FILE_NAME
from jumar.tune.graph import Graph
from jumar.tune.graph.capture.capture import graph_of_module
from jumar.tune.measure.options import Space
from jumar.tune.model import notes
from jumar.tune.model.machine import this_machine
from jumar.tune.plan import Plan, Region
from jumar.tune.plan.built import Request, function_of, trim
from jumar.tune.plan.engines import ENGINES
from jumar.tune.search.subgraph.whole import whole_plans

pytestmark = [
    # PyTorch's own imports and exports warn of PyTorch's own deprecations.
    pytest.mark.filterwarnings("ignore:`torch.jit.script_method` is deprecated:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:`isinstance\\(treespec, LeafSpec\\)` is deprecated:FutureWarning"),
]


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """A bank of this test's own; nothing compiled, known or said before or after."""
    monkeypatch.setenv("TUNE_BANK_PATH", str(tmp_path))
    monkeypatch.delenv("JUMAR_TUNE_COLLECT", raising=False)
    monkeypatch.delenv("JUMAR_BUILT_IN_BANK", raising=False)
    for _ in range(2):
        torch._dynamo.reset()
        knowledge.forget()
        notes.forget()
        if _ == 0:
            yield


@pytest.fixture
def untuned(monkeypatch: pytest.MonkeyPatch) -> list[Compilation]:
    """What is compiled untuned, which takes no compiler's time here: the graph runs as it is."""
    compiled: list[Compilation] = []

    def compile_untuned(self: Compilation) -> Callable[..., Any]:
        compiled.append(self)
        return self.module.forward

    monkeypatch.setattr(Compilation, "untuned", compile_untuned)
    return compiled


def offline(model: nn.Module, inputs: tuple[torch.Tensor, ...], folder: Path) -> Graph:
    return graph_of_module(model, inputs, folder=folder).graph


def net_in_bank(tmp_path: Path, plan: Plan = EAGER) -> Net:
    model = Net().eval()
    fill_bank(tmp_path, [offline(model, net_inputs(), tmp_path)], plan).close()
    return model


def same(model: nn.Module, compiled: Any, inputs: tuple[torch.Tensor, ...]) -> bool:
    with torch.no_grad():
        expected, actual = model(*inputs), compiled(*inputs)
    return all(torch.allclose(expected[name], actual[name], atol=1e-6) for name in expected)


def test_the_back_end_is_found_by_its_name() -> None:
    assert "jumar" in torch._dynamo.list_backends()


def test_a_model_tuned_offline_is_computed_by_its_plan(tmp_path: Path, untuned: list[Compilation]) -> None:
    model = net_in_bank(tmp_path)
    assert same(model, torch.compile(model, backend="jumar"), net_inputs())
    assert not untuned
    assert len(list((tmp_path / "plans").iterdir())) == 1


def test_a_plan_that_was_built_is_loaded_the_next_time(
    tmp_path: Path, untuned: list[Compilation], monkeypatch: pytest.MonkeyPatch
) -> None:
    model = net_in_bank(tmp_path)
    with torch.no_grad():
        torch.compile(model, backend="jumar")(*net_inputs())
    torch._dynamo.reset()

    def build(*_arguments: object) -> None:
        raise AssertionError("it was built already")

    monkeypatch.setattr("jumar.tune.plan.build.build", build)
    assert same(model, torch.compile(model, backend="jumar"), net_inputs())
    assert not untuned


def test_a_kept_plan_that_is_damaged_is_built_anew(
    tmp_path: Path, untuned: list[Compilation], monkeypatch: pytest.MonkeyPatch
) -> None:
    model = net_in_bank(tmp_path)
    with torch.no_grad():
        torch.compile(model, backend="jumar")(*net_inputs())
    torch._dynamo.reset()
    from jumar.tune.plan import build as module

    load, calls = module.load, []

    def load_once_broken(*arguments: Any) -> Any:
        calls.append(1)
        if len(calls) == 1:
            raise EOFError("cut short")
        return load(*arguments)

    monkeypatch.setattr(module, "load", load_once_broken)
    assert same(model, torch.compile(model, backend="jumar"), net_inputs())
    assert (len(calls), untuned) == (2, [])


UNGUARDED = {"guard_filter_fn": torch.compiler.skip_guard_on_inbuilt_nn_modules_unsafe}
"""TorchDynamo does not check the modules' attributes."""


@pytest.mark.parametrize("options", [{}, UNGUARDED], ids=["guarded", "unguarded"])
@pytest.mark.parametrize(("change", "num_untuned"), [("in place", 1), ("replaced", 0), ("moved", 1)])
def test_weights_that_change_are_computed_with(
    tmp_path: Path, untuned: list[Compilation], change: str, num_untuned: int, options: dict[str, Any]
) -> None:
    model = net_in_bank(tmp_path)
    compiled = torch.compile(model, backend="jumar", options=dict(options))
    assert same(model, compiled, net_inputs())
    with torch.no_grad():
        if change == "in place":
            model.linear.weight.mul_(2)
        elif change == "replaced":
            model.linear.weight = nn.Parameter(torch.randn(4, 6))
        else:
            model.linear.weight.data = torch.randn(4, 6)
    assert same(model, compiled, net_inputs())
    assert len(untuned) == num_untuned


def trained_once(model: nn.Module, **settings: Any) -> None:
    sum(output.square().sum() for output in model(*net_inputs()).values()).backward()
    torch.optim.AdamW(model.parameters(), 0.1, **settings).step()
    model.zero_grad()


@pytest.mark.parametrize("settings", [{}, {"fused": True}, {"foreach": True}], ids=str)
def test_the_step_of_any_optimizer_is_seen(
    tmp_path: Path, untuned: list[Compilation], settings: dict[str, bool]
) -> None:
    model = net_in_bank(tmp_path)
    compiled = torch.compile(model, backend="jumar")
    assert same(model, compiled, net_inputs())
    trained_once(model, **settings)
    versions = [weight._version for weight in model.parameters()]
    assert same(model, compiled, net_inputs())
    assert len(untuned) == 1
    assert [weight._version for weight in model.parameters()] == versions


def test_the_step_of_another_models_optimizer_changes_nothing(tmp_path: Path, untuned: list[Compilation]) -> None:
    model, other = net_in_bank(tmp_path), Net().eval()
    compiled = torch.compile(model, backend="jumar")
    assert same(model, compiled, net_inputs())
    versions = [weight._version for weight in other.parameters()]
    trained_once(other, fused=True)
    assert [weight._version for weight in other.parameters()] == versions
    assert same(model, compiled, net_inputs())
    assert not untuned


def test_other_weights_of_the_same_graph_have_a_plan_of_their_own(tmp_path: Path, untuned: list[Compilation]) -> None:
    model, other = net_in_bank(tmp_path), Net().eval()
    for one in (model, other):
        assert same(one, torch.compile(one, backend="jumar"), net_inputs())
    assert not untuned
    assert len(list((tmp_path / "plans").iterdir())) == 2


def test_weights_without_a_plan_are_looked_up_once(
    tmp_path: Path, untuned: list[Compilation], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A model of the same code that no plan was chosen for was captured again in each call."""
    model, other = net_in_bank(tmp_path), Net().eval()
    ready, looks = entry._ready, []

    def only_the_first(*arguments: Any) -> Any:
        looks.append(1)
        return ready(*arguments) if len(looks) == 1 else None

    monkeypatch.setattr(entry, "_ready", only_the_first)
    for _ in range(3):
        for one in (model, other):
            assert same(one, torch.compile(one, backend="jumar"), net_inputs())
    assert (len(looks), len(untuned)) == (2, 1)


def test_more_models_of_one_code_than_plans_are_built_for_are_told_of(
    tmp_path: Path, untuned: list[Compilation], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("jumar.tune.backend.inference.GREATEST_SETS", 2)
    for one in (net_in_bank(tmp_path), Net().eval(), Net().eval()):
        assert same(one, torch.compile(one, backend="jumar"), net_inputs())
    assert "compiled for 2 sets of weights; with further ones it runs untuned" in caplog.text
    assert len(untuned) == 1


class Replaces(nn.Module):
    """Puts another tensor in the place of its buffer in each call."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer
        self.register_buffer("hidden", torch.zeros(1, 4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.hidden = torch.tanh(self.layer(x) + self.hidden)
        return self.hidden


@pytest.mark.parametrize(("layer", "num_plans"), [(nn.Linear(4, 4), 1), (nn.Tanh(), 2)], ids=["linear", "none"])
def test_a_buffer_that_is_replaced_in_each_call_has_no_plans_built_for_it(
    tmp_path: Path, untuned: list[Compilation], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture,
    layer: nn.Module, num_plans: int,
) -> None:  # fmt: skip
    x = torch.randn(1, 4)
    monkeypatch.setenv("JUMAR_TUNE_COLLECT", str(tmp_path / "graphs"))
    with torch.no_grad():
        torch.compile(Replaces(layer), backend="jumar")(x)
    monkeypatch.delenv("JUMAR_TUNE_COLLECT")
    torch._dynamo.reset()
    fill_bank(tmp_path, [one.graph for one in read_collected(tmp_path / "graphs")]).close()
    model = Replaces(layer)
    plain, compiled = copy.deepcopy(model), torch.compile(model, backend="jumar")
    with torch.no_grad():
        for _ in range(8):
            assert torch.allclose(compiled(x), plain(x), atol=1e-6)
    assert len(list((tmp_path / "plans").iterdir())) == num_plans
    assert len(untuned) == 1
    assert caplog.text.count("buffers of a tuned model are other tensors") == 1


def test_without_a_bank_one_sentence_is_said(
    tmp_path: Path, untuned: list[Compilation], caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(2):
        torch._dynamo.reset()
        model = Net().eval()
        assert same(model, torch.compile(model, backend="jumar"), net_inputs())
    assert len(untuned) == 2
    assert caplog.text.count("holds no bank") == 1


@pytest.mark.parametrize("place", ["~nobody-of-this-name/bank", ""])
def test_a_bank_whose_place_is_nowhere_is_said_and_the_model_runs(
    untuned: list[Compilation], caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    def nowhere() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", nowhere)
    monkeypatch.setenv("TUNE_BANK_PATH", place)
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    model = Net().eval()
    assert same(model, torch.compile(model, backend="jumar"), net_inputs())
    assert len(untuned) == 1
    assert "models are compiled untuned" in caplog.text


def test_the_layer_beneath_is_used_alone_while_there_is_no_own_bank(
    tmp_path: Path, untuned: list[Compilation], monkeypatch: pytest.MonkeyPatch
) -> None:
    built_in = tmp_path / "built-in"
    built_in.mkdir()
    model = Net().eval()
    fill_bank(built_in, [offline(model, net_inputs(), tmp_path)]).close()
    monkeypatch.setenv("JUMAR_BUILT_IN_BANK", str(built_in))
    assert same(model, torch.compile(model, backend="jumar"), net_inputs())
    assert not untuned
    assert not (tmp_path / FILE_NAME).exists()


def test_a_bank_of_a_newer_schema_is_said_and_left(
    tmp_path: Path, untuned: list[Compilation], caplog: pytest.LogCaptureFixture
) -> None:
    model = net_in_bank(tmp_path)
    with sqlite3.connect(tmp_path / FILE_NAME) as connection:
        connection.execute("UPDATE meta SET value = '99' WHERE name = 'schema_version'")
    connection.close()
    assert same(model, torch.compile(model, backend="jumar"), net_inputs())
    assert "has schema 99" in caplog.text
    assert len(untuned) == 1


@pytest.mark.parametrize(
    ("region", "sentence"),
    [
        (Region(nodes=(), engine="eager", version="0.0.1"), "the plan was made with eager 0.0.1"),
        (Region(nodes=(), engine="steam"), "needs the engine steam"),
        (Region(nodes=(), engine="eager", settings={"reuse": True}), "uses the memory of its outputs again"),
    ],
)
def test_a_plan_that_does_not_fit_here_is_said_and_left(
    tmp_path: Path, untuned: list[Compilation], caplog: pytest.LogCaptureFixture, region: Region, sentence: str
) -> None:
    model = net_in_bank(tmp_path, Plan(regions=(region,)))
    assert same(model, torch.compile(model, backend="jumar"), net_inputs())
    assert sentence in caplog.text
    assert len(untuned) == 1


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (lambda x: x.view(-1), "shares memory with an input"),
        (lambda x: (x + 1, torch.rand_like(x))[1] * 0, "draws random numbers"),
    ],
)
def test_what_is_not_tuned_runs_and_is_told(
    tmp_path: Path, untuned: list[Compilation], caplog: pytest.LogCaptureFixture, function: Any, reason: str
) -> None:
    net_in_bank(tmp_path)
    x = torch.arange(6.0).view(2, 3)
    mine, theirs = x.clone(), x.clone()
    with torch.no_grad():
        assert torch.equal(torch.compile(function, backend="jumar")(mine), function(theirs))
    assert torch.equal(mine, theirs)
    assert reason in caplog.text
    assert len(untuned) == 1


def test_autocast_runs_untuned(tmp_path: Path, untuned: list[Compilation], caplog: pytest.LogCaptureFixture) -> None:
    net_in_bank(tmp_path)
    layer = nn.Linear(4, 4)
    compiled = torch.compile(layer, backend="jumar")
    with torch.no_grad(), torch.autocast("cpu"):
        assert torch.equal(compiled(torch.ones(2, 4)), layer(torch.ones(2, 4)))
    assert "autocast is on" in caplog.text
    assert len(untuned) == 1


def test_a_miss_says_nothing(tmp_path: Path, untuned: list[Compilation], caplog: pytest.LogCaptureFixture) -> None:
    net_in_bank(tmp_path)
    with torch.no_grad():
        torch.compile(nn.Linear(4, 4), backend="jumar")(torch.ones(2, 4))
    assert len(untuned) == 1
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


def train(model: nn.Module, run: Any) -> list[torch.Tensor]:
    """Return gradients and buffers after two steps."""
    for _ in range(2):
        model.zero_grad()
        result = run(*net_inputs())
        (result["scores"].square().sum() + result["features"].sum()).backward()
    return [*(parameter.grad.clone() for parameter in model.parameters()), *model.buffers()]


def collected(model: nn.Module, folder: Path, monkeypatch: pytest.MonkeyPatch) -> list[Collected]:
    """Collect a training step and an inference of the model."""
    monkeypatch.setenv("JUMAR_TUNE_COLLECT", str(folder))
    train(model, torch.compile(model, backend="jumar"))
    model.eval()
    with torch.no_grad():
        torch.compile(model, backend="jumar")(*net_inputs())
    model.train()
    torch._dynamo.reset()
    monkeypatch.delenv("JUMAR_TUNE_COLLECT")
    return read_collected(folder)


def test_collecting_leaves_the_run_as_it_is_and_writes_each_graph_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = Net()
    plain = copy.deepcopy(model)
    expected = train(plain, plain)
    monkeypatch.setenv("JUMAR_TUNE_COLLECT", str(tmp_path / "graphs"))
    actual = train(model, torch.compile(model, backend="jumar"))
    assert all(torch.allclose(one, other, atol=1e-6) for one, other in zip(expected, actual, strict=True))
    assert [one.origin.phase for one in read_collected(tmp_path / "graphs")] == ["training"]
    torch._dynamo.reset()
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "graphs").iterdir()}
    train(model, torch.compile(model, backend="jumar"))
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "graphs").iterdir()} == before


class WritesThroughAView(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Conv2d(3, 4, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        made = self.layer(x)
        rows = made.view(len(x), -1)
        rows += 1.0
        return made * rows.sum()


def test_a_collected_step_whose_module_writes_through_a_view_is_tuned_without_other_layouts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JUMAR_TUNE_COLLECT", str(tmp_path))
    torch.compile(WritesThroughAView(), backend="jumar")(torch.randn(2, 3, 8, 8)).sum().backward()
    (step,) = read_collected(tmp_path)
    captured = step.captured("train.py")
    assert "what a view shares" in captured.keeps_layout
    layouts = []
    for space in (Space(), Space(keeps_layout=bool(captured.keeps_layout))):
        plans = whole_plans(captured.graph, this_machine(), ENGINES, space).plans
        layouts.append({plan.regions[0].settings.get("layout") for plan in plans})
    assert layouts == [{None, "channels_last"}, {None}]


def test_a_collected_inference_is_the_graph_of_offline_tuning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = Net()
    found = {one.origin.phase: one.graph.key for one in collected(model, tmp_path / "graphs", monkeypatch)}
    assert found["inference"] == offline(model, net_inputs(), tmp_path).key


def test_plans_that_another_process_removes_meanwhile_are_no_matter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in (".draft", "gone", "kept"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_bytes(b"0" * 10)
    is_dir, stat = Path.is_dir, Path.stat

    def removed(path: Path) -> bool:
        return path.name == ".draft" or path.parent.name == "gone"

    def stat_of_what_is_there(path: Path, **options: Any) -> Any:
        if removed(path):
            raise FileNotFoundError(path)
        return stat(path, **options)

    monkeypatch.setattr(Path, "is_dir", lambda path: removed(path) or is_dir(path))
    monkeypatch.setattr(Path, "is_file", lambda _path: True)
    monkeypatch.setattr(Path, "stat", stat_of_what_is_there)
    trim(tmp_path, keep=tmp_path / "kept", greatest_bytes=0)
    monkeypatch.undo()
    assert (tmp_path / "kept").is_dir()


FORMED = Plan(regions=(Region(nodes=(), engine="eager", settings={"layout": "channels_last", "products": True}),))


@pytest.mark.parametrize("plan", [EAGER, FORMED, replace(FORMED, memory="keep")])
def test_a_training_step_is_computed_by_its_plan(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, untuned: list[Compilation], plan: Plan
) -> None:
    monkeypatch.setattr("jumar.tune.backend.training.keep_from_now_on", lambda: None)  # it is for good
    model = Net()
    steps = [one.graph for one in collected(model, tmp_path / "graphs", monkeypatch) if one.graph.gradients]
    fill_bank(tmp_path, steps, plan).close()
    knowledge.forget()
    plain = copy.deepcopy(model)
    expected, actual = train(plain, plain), train(model, torch.compile(model, backend="jumar"))
    assert all(torch.allclose(one, other, atol=1e-5) for one, other in zip(expected, actual, strict=True))
    assert (len(steps), untuned) == (1, [])


class Drops(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.filters, self.norm, self.last = nn.Conv2d(3, 32, 1), nn.BatchNorm2d(32), nn.Linear(32, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        means = torch.relu(self.norm(self.filters(x))).mean((2, 3))
        scores: torch.Tensor = self.last(nn.functional.dropout(means, 0.5, self.training))
        return scores


def test_a_training_step_with_dropout_draws_by_its_plan_what_it_draws_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, untuned: list[Compilation]
) -> None:
    model, images = Drops(), torch.randn(4, 3, 6, 6)
    gradients = []
    for folder in (tmp_path / "graphs", None):
        if folder is not None:
            monkeypatch.setenv("JUMAR_TUNE_COLLECT", str(folder))
        else:
            monkeypatch.delenv("JUMAR_TUNE_COLLECT")
            fill_bank(tmp_path, [one.graph for one in read_collected(tmp_path / "graphs")], FORMED).close()
            knowledge.forget()
            torch._dynamo.reset()
        model.zero_grad()
        torch.manual_seed(7)
        torch.compile(model, backend="jumar")(images).square().sum().backward()
        gradients.append([parameter.grad.clone() for parameter in model.parameters()])
    assert all(torch.allclose(one, other, atol=1e-4) for one, other in zip(*gradients, strict=True))
    assert not untuned


def test_a_step_is_captured_once_a_bank(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, untuned: list[Compilation]
) -> None:
    model = Net()
    steps = [one.graph for one in collected(model, tmp_path / "graphs", monkeypatch)]
    fill_bank(tmp_path, steps).close()
    knowledge.forget()
    train(model, torch.compile(model, backend="jumar"))
    torch._dynamo.reset()

    def take_step(_compilation: object) -> None:
        raise AssertionError("it was captured already")

    monkeypatch.setattr("jumar.tune.backend.training.take_step", take_step)
    train(model, torch.compile(model, backend="jumar"))
    assert not untuned


def stops_gradients(x: torch.Tensor) -> torch.Tensor:
    return x.detach() * x


def test_a_step_that_is_not_tuned_says_why_each_time(
    tmp_path: Path, untuned: list[Compilation], caplog: pytest.LogCaptureFixture
) -> None:
    change, reason = stops_gradients, "stops gradients"
    net_in_bank(tmp_path)
    x = torch.ones(3, requires_grad=True)
    for number in range(2):
        torch._dynamo.reset()
        notes.forget()
        change(x).sum().backward()
        expected, x.grad = x.grad, None
        torch.compile(change, backend="jumar")(x).sum().backward()
        assert torch.equal(x.grad, expected)
        x.grad = None
        assert caplog.text.count(reason) == number + 1
    assert len(untuned) == 2


@pytest.mark.parametrize(
    ("plan", "sentence"),
    [
        (Plan(regions=(Region(nodes=(), engine="eager"),), num_threads=1), "is of no training step"),
        (Plan(regions=(Region(nodes=(), engine="openvino"),)), "computes no gradients"),
    ],
)
def test_a_plan_that_is_of_no_step_is_said_and_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, untuned: list[Compilation], caplog: pytest.LogCaptureFixture,
    plan: Plan, sentence: str,
) -> None:  # fmt: skip
    monkeypatch.setattr("jumar.tune.plan.built.unusable", lambda *_: "")
    model = Net()
    steps = [one.graph for one in collected(model, tmp_path / "graphs", monkeypatch)]
    fill_bank(tmp_path, steps, plan).close()
    knowledge.forget()
    train(model, torch.compile(model, backend="jumar"))
    assert sentence in caplog.text
    assert len(untuned) == 1


def test_collecting_where_nothing_can_be_written_lets_the_model_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("JUMAR_TUNE_COLLECT", str(tmp_path / "file" / "graphs"))
    model = Net().eval()
    assert same(model, torch.compile(model, backend="jumar"), net_inputs())
    assert "cannot be kept for tuning" in caplog.text


def test_where_nothing_can_be_kept_a_plan_is_built_for_this_process_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph, weights = exported(nn.Linear(4, 4), torch.ones(2, 4))
    (tmp_path / "file").write_text("in the way")
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    plan = Plan(regions=(Region(nodes=(), engine="plain", version="1"),))
    request = Request(graph=graph, plan=plan, weights=weights, example=[torch.ones(2, 4)], machine=this_machine())
    function = function_of(request, tmp_path / "file" / "plans", [Plain()])
    assert function(torch.ones(2, 4))[0].shape == (2, 4)
    assert len(list((tmp_path / "temporary").iterdir())) == 1
    del function
    gc.collect()
    assert not list((tmp_path / "temporary").iterdir())


def test_what_was_tuned_meanwhile_is_found_after_a_reset(tmp_path: Path, untuned: list[Compilation]) -> None:
    model = Net().eval()
    fill_bank(tmp_path, []).close()
    for _ in range(2):
        torch._dynamo.reset()
        assert same(model, torch.compile(model, backend="jumar"), net_inputs())
        assert len(untuned) == 1
        fill_bank(tmp_path, [offline(model, net_inputs(), tmp_path)]).close()


def test_another_bank_may_be_named_by_its_path(
    tmp_path: Path, untuned: list[Compilation], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "other").mkdir()
    monkeypatch.setenv("TUNE_BANK_PATH", str(tmp_path / "other"))
    model = net_in_bank(tmp_path)
    for place in (tmp_path, str(tmp_path)):
        torch._dynamo.reset()
        assert same(model, torch.compile(model, backend="jumar", options={"bank": place}), net_inputs())
    assert not untuned


def test_what_runs_on_another_device_is_said_to_be_untuned(caplog: pytest.LogCaptureFixture) -> None:
    assert knowledge.knowledge("cuda") is None
    assert "what runs on cuda is compiled untuned: plans are measured on the CPU." in caplog.text


def test_a_plan_that_was_built_with_other_instructions_is_not_taken(
    tmp_path: Path, untuned: list[Compilation], monkeypatch: pytest.MonkeyPatch
) -> None:
    model = net_in_bank(tmp_path)
    for known in (["avx2"], ["avx2", "avx512f"], ["avx2"]):
        torch._dynamo.reset()
        monkeypatch.setattr("jumar.tune.plan.built.instructions", lambda known=known: known)
        assert same(model, torch.compile(model, backend="jumar"), net_inputs())
    assert len(list((tmp_path / "plans").iterdir())) == 2
