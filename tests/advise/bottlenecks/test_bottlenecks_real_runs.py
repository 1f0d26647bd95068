"""Advice on recordings of real small models: the planted fault is named, the control is not accused."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import torch
from step_builder import of
from torch import nn
from torch.nn import functional as F
from torch.utils.flop_counter import FlopCounterMode

from jumar.advise.bottlenecks import Advice, advise
from jumar.capture import record


def line_of(function: Callable[..., object], text: str) -> str:
    """Return `file.py:LINE` of the first line of `function` that holds `text`."""
    code = function.__code__
    lines = Path(code.co_filename).read_text().splitlines()
    number = next(n for n in range(code.co_firstlineno, len(lines) + 1) if text in lines[n - 1])
    return f"{Path(code.co_filename).name}:{number}"


def train(path: Path, model: nn.Module, batches: list[tuple[int, ...]], *, each_step: object = None) -> Advice:
    torch.manual_seed(0)
    torch.set_num_threads(1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with record(path, model=model):
        for shape in batches:
            optimizer.zero_grad()
            loss = model(torch.randn(shape)).square().mean()
            loss.backward()
            if callable(each_step):
                each_step(loss)
            optimizer.step()
    return advise(path)


class Shuffle(nn.Module):
    """Two convolutions with the channel shuffle of ShuffleNetV2 between them."""

    def __init__(self, *, by_index: bool) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 16, 3), nn.Conv2d(16, 16, 3)
        self.by_index = by_index
        self.register_buffer("index", torch.arange(16).view(2, 8).t().flatten())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.first(x)
        if self.by_index:
            return self.second(x.index_select(1, self.index))
        n, c, h, w = x.shape
        x = x.view(n, 2, c // 2, h, w)
        x = torch.transpose(x, 1, 2).contiguous()
        return self.second(x.view(n, c, h, w))


def test_a_channel_shuffle_is_named_with_its_line_and_bytes(tmp_path):
    found = of(train(tmp_path / "r", Shuffle(by_index=False), [(4, 3, 12, 12)] * 2), "JM402")
    by_phase = {finding.where.phase: finding for finding in found}
    assert set(by_phase) == {"forward", "backward"}
    forward = by_phase["forward"]
    assert forward.evidence["view"] == "aten::transpose.int"
    assert forward.evidence["view_source"].endswith(line_of(Shuffle.forward, "torch.transpose"))
    assert forward.evidence["bytes_per_step"] == 2 * 4 * (4 * 16 * 10 * 10)


def test_the_same_shuffle_by_index_has_no_such_copy(tmp_path):
    assert of(train(tmp_path / "r", Shuffle(by_index=True), [(4, 3, 12, 12)] * 2), "JM402") == []


class Transposing(nn.Module):
    """Transposes and copies a weight in a loop."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(32, 32))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for _ in range(5):
            x = x @ self.weight.t().contiguous()
        return x


def test_a_transposed_copy_in_a_loop_is_counted(tmp_path):
    found = of(train(tmp_path / "r", Transposing(), [(8, 32)] * 2), "JM402")
    (forward,) = [finding for finding in found if finding.where.phase == "forward"]
    assert forward.evidence["view"] == "aten::t"
    assert forward.evidence["calls_per_step"] == 5
    assert forward.evidence["bytes_per_step"] == 5 * 2 * 4 * 32 * 32


def test_a_plain_linear_model_is_not_accused(tmp_path):
    model = nn.Sequential(nn.Linear(32, 64), nn.LayerNorm(64), nn.GELU(), nn.Linear(64, 8))
    advice = train(tmp_path / "r", model, [(16, 32)] * 3)
    codes = {finding.code for finding in advice.findings} - {"JM410"}  # the wait depends on the machine's load
    assert codes == set()


def test_a_loss_read_in_each_step_is_named_with_its_line(tmp_path):
    def read(loss: torch.Tensor) -> None:
        loss.item()

    (finding,) = of(train(tmp_path / "r", nn.Linear(8, 8), [(4, 8)] * 3, each_step=read), "JM406")
    assert finding.evidence["calls_per_step"] == 1
    assert next(iter(finding.evidence["sources"])).endswith(line_of(read, "loss.item()"))


def test_a_smaller_last_batch_is_named(tmp_path):
    (finding,) = of(train(tmp_path / "r", nn.Linear(8, 8), [(16, 8), (16, 8), (5, 8)]), "JM403")
    assert finding.evidence["steps"] == [2]
    assert "(16×8 to 5×8)" in finding.message
    assert "batch (dimension 0)" in finding.message


class Casting(nn.Module):
    """Sends its activations through float16 and back."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(64, 64)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.fc(x).half().float()


def test_a_round_trip_is_found_in_forward_and_backward(tmp_path):
    found = of(train(tmp_path / "r", Casting(), [(32, 64)] * 2), "JM404")
    trips = [finding for finding in found if finding.evidence["pattern"] == "round trip"]
    assert {f.evidence["dtypes"] for f in trips} == {"float32 → float16 → float32"}
    assert sum(finding.evidence["num_calls"] for finding in trips) == 4  # once in each phase of each step


class Widening(nn.Module):
    """Multiplies by a float64 constant."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(16, 16)
        self.register_buffer("scale", torch.ones(16, dtype=torch.float64))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.fc(x) * self.scale


def test_a_float64_buffer_is_found_where_it_enters(tmp_path):
    found = of(train(tmp_path / "r", Widening(), [(8, 16)] * 2), "JM405")
    first = next(finding for finding in found if finding.where.phase == "forward")
    assert first.evidence["entry"] == "aten::mul.Tensor"
    assert first.evidence["entry_source"].endswith(line_of(Widening.forward, "self.scale"))


def test_an_operator_without_a_kernel_is_a_fallback(tmp_path):
    class Spectral(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Linear(8, 8)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.fc(x) + torch.linalg.eigvals(self.fc.weight.detach()).real

    (finding,) = of(train(tmp_path / "r", Spectral(), [(8, 8)] * 2), "JM401")
    assert (finding.where.operator, finding.evidence["num_calls"]) == ("aten::linalg_eig", 2)


def test_the_flops_of_a_step_are_those_of_pytorchs_counter(tmp_path):
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 6 * 6, 10))
    advice = train(tmp_path / "r", model, [(4, 3, 8, 8)])
    with FlopCounterMode(display=False) as counter:
        F.cross_entropy(model(torch.randn(4, 3, 8, 8)), torch.zeros(4, dtype=torch.long)).backward()
    assert [step.flops for step in advice.steps] == [counter.get_total_flops()]


NPU_SCRIPT = """
import sys
import torch
from torch import nn
from jumar.capture import record
from jumar.device import emulate

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(nn.Linear(32, 32) for _ in range(4))
    def forward(self, x):
        mask = torch.tril(torch.ones(32, 32)).to(x.device)
        for block in self.blocks:
            x = block(x) @ mask
        return x

torch.set_num_threads(1)
with emulate():
    for name in ("single", "foreach"):
        model = Model().to("npu")
        optimizer = torch.optim.AdamW(model.parameters(), foreach=name == "foreach")
        with record(f"{sys.argv[1]}/{name}", model=model):
            for _ in range(3):
                optimizer.zero_grad()
                loss = model(torch.randn(16, 32).to("npu")).square().mean()
                loss.backward()
                optimizer.step()
"""


def test_on_the_emulated_npu_copies_and_the_optimizer_are_judged(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(NPU_SCRIPT)
    subprocess.run([sys.executable, script, tmp_path], check=True, timeout=120)
    line = NPU_SCRIPT.splitlines().index("        mask = torch.tril(torch.ones(32, 32)).to(x.device)") + 1
    for name, num_findings in (("single", 1), ("foreach", 0)):
        advice = advise(tmp_path / name)
        (copy,) = of(advice, "JM412")
        assert (copy.where.line, copy.evidence["bus_bytes_per_step"]) == (line, 32 * 32 * 4)
        assert len(of(advice, "JM408")) == num_findings
        assert of(advice, "JM406") == []
