"""Which operators open the gap between two runs: search, state, the switch itself, and the whole."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional

import jumar
from jumar.base.errors import InputError, OutputError, ScriptError, UsageError
from jumar.cli.main import main
from jumar.comparison.bisect import Program, Question, Trial, Unit, bisect
from jumar.comparison.bisect.engine import OutOfRuns, loss_gap, smallest
from jumar.comparison.bisect.intervene import InterveneMode
from jumar.comparison.bisect.state import State
from jumar.comparison.bisect.units import ENVIRONMENT, How, Intervention, matching, unit_of
from jumar.device import DevicePlan
from jumar.recording import Recording

FC1, FC2, ACT = Unit("aten::addmm", "fc1"), Unit("aten::addmm", "fc2"), Unit("aten::gelu", "act")


@given(st.sets(st.integers(0, 40), min_size=1, max_size=5), st.integers(41, 60))
@settings(derandomize=True, deadline=None, max_examples=60)
def test_the_smallest_set_is_exactly_what_is_needed(needed: set[int], num_items: int) -> None:
    found, certain = smallest(range(num_items), lambda items: needed <= set(items))
    assert (set(found), certain) == (needed, True)


@given(st.lists(st.integers(1, 9), min_size=1, max_size=20), st.floats(0.1, 1.0))
@settings(derandomize=True, deadline=None, max_examples=60)
def test_of_shares_no_item_can_be_left_out(shares: list[int], part: float) -> None:
    wanted = part * sum(shares)
    enough = lambda items: sum(shares[item] for item in items) >= wanted  # noqa: E731 - one expression
    found, _ = smallest(range(len(shares)), enough)
    assert enough(found)
    assert all(not enough([other for other in found if other != item]) for item in found) or len(found) == 1


def test_a_search_that_runs_out_of_runs_keeps_the_best_so_far() -> None:
    runs = iter(range(3))

    def test(items: Sequence[int]) -> bool:
        if next(runs, None) is None:
            raise OutOfRuns
        return 5 in items

    found, certain = smallest(range(16), test)
    assert 5 in found
    assert len(found) < 16
    assert not certain


@pytest.mark.parametrize(
    ("reference", "target", "expected"),
    [
        ({0: 1.0, 1: 2.0}, {0: 1.0, 1: 2.0}, 0.0),
        ({0: 1.0, 1: 2.0}, {0: 4.0, 1: 6.0}, math.sqrt(12.5)),
        ({0: 1.0}, {1: 2.0}, 0.0),
        ({0: 3.0}, {0: math.nan}, 3.0),
        ({0: 0.5}, {0: math.inf}, 1.0),
        ({0: math.nan}, {0: math.nan}, 0.0),
    ],
)
def test_the_gap_is_the_root_mean_square_of_the_differences(
    reference: dict[int, float], target: dict[int, float], expected: float
) -> None:
    assert loss_gap(reference, target) == pytest.approx(expected)


def test_units_are_chosen_by_operator_and_module() -> None:
    units = [FC1, FC2, ACT, Unit("aten::addmm", "blocks.1.fc1")]
    assert matching(units, ["aten::a*"], ["fc?"]) == [FC1, FC2]
    assert matching(units, [], ["blocks.1"]) == [units[3]]
    assert matching(units, [], []) == units


# -- the state --------------------------------------------------------------------------------


def trial(*units: Unit, closed: float = 0.5) -> Trial:
    return Trial(units=frozenset(units), losses={0: 1.5, 2: math.nan}, closed=closed, switched=3, failed=("why",))


def test_trials_survive_in_a_file_whatever_their_order(tmp_path: Path) -> None:
    State(tmp_path, {"script": "a"}).add(trial(FC1, ACT))
    again = State(tmp_path, {"script": "a"})
    found = again.get([ACT, FC1])
    assert found is not None
    assert (found.closed, found.switched, found.failed, found.losses[0]) == (0.5, 3, ("why",), 1.5)
    assert math.isnan(found.losses[2])
    assert again.num_resumed == 1
    assert again.get([FC1]) is None


def test_the_trials_of_another_question_are_not_taken(tmp_path: Path) -> None:
    State(tmp_path, {"script": "a", "steps": 3}).add(trial(FC1))
    with pytest.raises(OutputError, match=r"belongs to another bisection \(other steps\)"):
        State(tmp_path, {"script": "a", "steps": 4})
    assert State(tmp_path, {"script": "a", "steps": 4}, force=True).get([FC1]) is None


@pytest.mark.parametrize("text", ["", "[]", '{"question": {}}', '{"question": {}, "trials": [1], "facts": {}}'])
def test_a_damaged_file_is_one_sentence(tmp_path: Path, text: str) -> None:
    (tmp_path / "bisection.json").write_text(text, "utf-8")
    with pytest.raises(InputError, match=r"is damaged .* Start anew with --force"):
        State(tmp_path, {})


def test_a_full_disk_keeps_the_trials_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    state = State(tmp_path, {})
    state.add(trial(FC1))

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("jumar.comparison.bisect.state.write_text", full)
        with pytest.raises(OutputError, match="No space left on device"):
            state.add(trial(FC2))
    assert State(tmp_path, {}).get([FC1]) is not None


# -- the switch -------------------------------------------------------------------------------


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc1, self.act, self.fc2 = nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 4)
        self.norm = nn.BatchNorm1d(4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(self.fc2(self.act(self.fc1(x))))


@contextmanager
def switched(units: Sequence[Unit], how: How = "float32") -> Iterator[InterveneMode]:
    mode = InterveneMode(Intervention(units=frozenset(units), how=how))
    mode.start()
    try:
        yield mode
    finally:
        mode.stop()


def gradients(net: Net, x: torch.Tensor) -> list[torch.Tensor]:
    net.zero_grad()
    net(x).square().sum().backward()
    return [parameter.grad.clone() for parameter in net.parameters() if parameter.grad is not None]


def test_operators_on_the_cpu_are_bit_identical_when_calculated_on_the_cpu() -> None:
    torch.manual_seed(0)
    net, x = Net(), torch.randn(5, 8)
    mean = net.norm.get_buffer("running_mean")
    before = mean.clone()
    expected = gradients(net, x)
    after = mean.clone()
    mean.copy_(before)
    names = ("addmm", "mm", "gelu", "gelu_backward")
    units = [Unit(f"aten::{name}", path) for name in names for path in ("fc1", "fc2", "act")]
    units += [Unit(f"aten::{name}", "norm") for name in ("native_batch_norm", "native_batch_norm_backward")]
    with switched(units, "cpu") as mode:
        actual = gradients(net, x)
    assert all(torch.equal(a, b) for a, b in zip(actual, expected, strict=True))
    assert torch.equal(mean, after)
    assert mode.switched["aten::addmm of fc1"] == 1
    assert mode.switched["aten::mm of fc2"] == 2  # the gradients of its input and of its weight
    assert mode.switched["aten::native_batch_norm of norm"] == 1


def test_only_the_chosen_operator_of_the_chosen_module_is_switched() -> None:
    net, x = Net().eval(), torch.randn(5, 8)
    exact = net(x)
    half, x16 = net.bfloat16(), x.bfloat16()
    plain = half(x16)
    with switched([FC1, ACT, FC2], "float64") as mode:
        better = half(x16)
    assert better.dtype is torch.bfloat16
    assert mode.switched == {"aten::addmm of fc1": 1, "aten::addmm of fc2": 1, "aten::gelu of act": 1}
    assert (better - exact).abs().mean() <= (plain - exact).abs().mean() * 1.5


def test_the_emulated_matrix_unit_is_mended_and_the_rest_is_left() -> None:
    torch.manual_seed(0)
    net, x = Net().eval(), torch.randn(5, 8)
    exact = net(x)
    with jumar.emulate("Ascend910A"), torch.no_grad():
        there = net.npu()
        rounded = there(x.npu()).cpu()
        with switched([FC1]):
            partly = there(x.npu()).cpu()
        with switched([FC1, FC2]):
            mended = there(x.npu()).cpu()
    torch.testing.assert_close(mended, exact, rtol=1e-6, atol=1e-6)
    assert not torch.equal(rounded, partly)
    assert not torch.equal(partly, mended)


def test_the_observer_above_sees_the_better_values(tmp_path: Path) -> None:
    torch.manual_seed(0)
    net, x = Net().bfloat16(), torch.randn(5, 8).bfloat16()
    with switched([FC1], "float64"), jumar.record(tmp_path / "recording", values="tensors"):
        net(x)
    recording = Recording.open(tmp_path / "recording")
    row = next(row for row in recording.rows(0) if row.name == "aten::addmm" and row.module_path == "fc1")
    exact = functional.linear(x.double(), net.fc1.weight.double(), net.fc1.bias.double())
    assert torch.equal(torch.from_numpy(recording.tensors(row)["output.0"]).bfloat16(), exact.bfloat16())


def test_random_operators_and_views_are_never_switched() -> None:
    x = torch.ones(64)
    units = [unit_of(name, "") for name in ("aten::bernoulli_", "aten::rand", "aten::view", "aten::t", "aten::mul")]
    torch.manual_seed(0)
    expected = torch.rand(64) * x.view(8, 8).t().reshape(-1)
    torch.manual_seed(0)
    with switched(units, "float64") as mode:
        actual = torch.rand(64) * x.view(8, 8).t().reshape(-1)
    assert torch.equal(actual, expected)
    assert set(mode.switched) == {"aten::mul of no module"}


def test_an_intervention_travels_through_the_environment(tmp_path: Path) -> None:
    given = Intervention(units=frozenset([FC1, ACT]), how="cpu", report=str(tmp_path))
    given.save(tmp_path / "it.json")
    assert Intervention.from_environment({ENVIRONMENT: str(tmp_path / "it.json")}) == given
    assert Intervention.from_environment({}) is None
    (tmp_path / "it.json").write_text("{", "utf-8")
    with pytest.raises(UsageError, match="must name a file that Jumar wrote"):
        Intervention.from_environment({ENVIRONMENT: str(tmp_path / "it.json")})
    with pytest.raises(UsageError, match="got float8"):
        Intervention(units=frozenset(), how="float8")  # type: ignore[arg-type]


# -- the whole --------------------------------------------------------------------------------

SCRIPT = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.whole, self.rough, self.act = nn.Linear(8, 8, bias=False), nn.Linear(8, 16), nn.Tanh()
        with torch.no_grad():  # small whole numbers: the matrix unit rounds none of them
            self.whole.weight.copy_(torch.randint(-2, 3, (8, 8)).float())

    def forward(self, x):
        return self.act(self.rough(self.whole(x)))

torch.manual_seed(0)
net = Net().npu()
optimizer = torch.optim.SGD(net.parameters(), lr=0.0)
for _ in range(4):
    x = torch.randint(-2, 3, (16, 8)).float().npu()
    loss = net(x).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


@pytest.fixture
def program(tmp_path: Path) -> Program:
    script = tmp_path / "train.py"
    script.write_text(SCRIPT, "utf-8")
    return Program(script=script, arguments=(), folder=tmp_path / "bisection", num_steps=2, cwd=tmp_path)


def question(**changes: object) -> Question:
    plan = DevicePlan(kind="npu", soc="Ascend910A", real="never")
    exact = DevicePlan(kind="npu", soc="Ascend910A", real="never", numerics="exact")
    return Question(**{"device": plan, "reference": exact, **changes})  # type: ignore[arg-type]


@pytest.mark.slow
def test_the_one_operator_that_rounds_is_found_and_the_search_resumes(program: Program) -> None:
    stopped = bisect(program, question(max_runs=4))
    assert not stopped.is_minimal
    assert Unit("aten::addmm", "rough") in stopped.units
    found = bisect(program, question())
    assert found.units == (Unit("aten::addmm", "rough"),)
    assert found.headline.startswith("Running aten::addmm of rough in float32 on the CPU closes 100% of the loss gap")
    assert found.gap_after < 0.01 * found.gap_before
    assert [finding.code for finding in found.findings] == ["JM328"]
    assert found.num_runs > len(json.loads((program.folder / "bisection.json").read_text("utf-8"))["trials"]) - 1
    again = bisect(program, question(max_runs=1))
    assert again.units == found.units  # nothing had to run


@pytest.mark.slow
def test_chosen_operators_are_switched_without_a_search(program: Program, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["accuracy", "bisect", "--soc", "Ascend910A", "--steps", "1", "-o", str(program.folder)]
    command += ["--modules", "whole", "--no-search", str(program.script)]
    assert main(command) == 0
    assert "closes 0% of the loss gap" in capsys.readouterr().out


@pytest.mark.slow
def test_a_check_judges_in_place_of_the_losses(program: Program, tmp_path: Path) -> None:
    check = tmp_path / "check.py"
    check.write_text(
        "import sys; from jumar.recording import Recording\n"
        "loss = dict(Recording.open(sys.argv[1]).losses())[0]\n"
        f"sys.exit(abs(loss - float(open({str(tmp_path / 'loss')!r}).read())) > 1e-7)\n",
        "utf-8",
    )
    import sys

    exact = bisect(program, question(search=False, modules=("whole",)))
    (tmp_path / "loss").write_text(repr(exact.reference_losses[0]), "utf-8")
    asked = question(reference=None, check=(sys.executable, str(check), "{recording}"), over="modules")
    found = bisect(program, asked, force=True)
    assert {unit.module_path for unit in found.units} == {"rough"}
    assert "makes the check pass" in found.headline


def test_a_script_that_fails_is_one_sentence(program: Program) -> None:
    program.script.write_text("import torch\nraise ValueError('broken here')\n", "utf-8")
    with pytest.raises(ScriptError, match=r"failed with code 1: .*broken here"):
        bisect(program, question())
