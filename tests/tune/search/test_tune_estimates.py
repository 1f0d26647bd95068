"""The emulated NPU as the device that is tuned for: outputs are compared, times are the analytic model's."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from odd_providers import Odd
from tune_builders import MACHINE

from jumar.base.errors import DeviceError, UsageError
from jumar.tune import Bank, TuneOptions, TuneResult, this_machine, tune
from jumar.tune.engines.eager import Eager
from jumar.tune.graph import Graph, Node
from jumar.tune.measure.options import PrecisionOptions
from jumar.tune.measure.worker.devices import Accelerator
from jumar.tune.model.gate import Gain, estimated_gain
from jumar.tune.model.task import Task, TensorSpec, contiguous_stride
from jumar.tune.providers import providers_on
from jumar.tune.providers.formats import Contiguous
from jumar.tune.providers.npu_attention import NpuAttention
from jumar.tune.providers.npu_format import NpuFormat
from jumar.tune.search.tasks.source import Source, model_source

SOC = "Ascend910A"
"""Its matrix unit reads blocked formats, so that a format of a weight makes a difference."""


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = torch.nn.Conv2d(16, 32, 3, padding=1)
        self.linear = torch.nn.Linear(32, 64)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(self.conv(x).relu().mean((2, 3)))


class Attention(torch.nn.Module):
    def __init__(self, *, causal: bool) -> None:
        super().__init__()
        self.causal = causal
        self.linear = torch.nn.Linear(64, 192)
        self.out = torch.nn.Linear(64, 64)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = (one.unflatten(-1, (4, 16)).transpose(1, 2) for one in self.linear(x).chunk(3, -1))
        mixed = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        return self.out(mixed.transpose(1, 2).flatten(2))


class Masked(Attention):
    """Its mask is a buffer, as GPT's is."""

    def __init__(self) -> None:
        super().__init__(causal=False)
        self.register_buffer("mask", torch.ones(64, 64, dtype=torch.bool).tril())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = (one.unflatten(-1, (4, 16)).transpose(1, 2) for one in self.linear(x).chunk(3, -1))
        mixed = torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=self.mask)
        return self.out(mixed.transpose(1, 2).flatten(2))


class Wrong(Odd):
    """Computes something else."""

    name = "wrong"
    devices = frozenset({"npu"})

    def candidates(self, task, machine):
        return [self.policy()] if task.base == "mean" else []

    def compute(self, function, tensors):
        return function(*tensors) * 1.5


def source_of(model: torch.nn.Module, example: torch.Tensor, folder: Path) -> Source:
    torch.export.save(torch.export.export(model.eval(), (example,)), folder / "net.pt2")
    (folder / "data").mkdir()
    return model_source(str(folder / "net.pt2"), folder=folder / "data")


def tuned(source: Source, folder: Path, soc: str = SOC, job_type: int = 2, **options) -> TuneResult:
    (folder / "bank").mkdir(exist_ok=True)
    bank = Bank.open(folder / "bank")
    try:
        return tune(
            source, bank=bank, result_folder=folder, machine=this_machine(f"npu:{soc}"),
            options=TuneOptions(job_type=job_type), **options,
        )  # fmt: skip
    finally:
        bank.close()


def gains(result: TuneResult) -> dict[str, Gain]:
    return {
        f"{task.use.task.base} {slot.policy}": slot.gain
        for task in result.tasks
        for slot in task.slots
        if slot.gain is not None
    }


def test_the_machine_is_the_chip_and_says_that_it_is_an_estimate():
    machine = this_machine("npu:910a")
    assert (machine.device, machine.model, machine.target) == ("npu", "Ascend910A", "npu:Ascend910A")
    assert machine.is_estimate
    assert "estimated by Jumar" in str(machine)
    assert not this_machine().is_estimate
    assert this_machine("npu").model != machine.model
    with pytest.raises(DeviceError, match="Ascend999"):
        this_machine("npu:Ascend999")
    with pytest.raises(UsageError, match="must be cpu, cuda or npu"):
        this_machine("tpu")


def test_an_estimated_gain_is_a_point_and_never_looks_measured():
    gain = estimated_gain(12.0, 10.0)
    assert (gain.ratio_low, gain.ratio, gain.ratio_high, gain.num_pairs) == (1.2, 1.2, 1.2, 0)
    assert str(gain) == "12 → 10 us, +20.0 % (an estimate, not a measurement)"
    assert gain.interval == "estimate"
    assert Gain.from_json(json.loads(json.dumps(gain.to_json()))) == gain
    assert gain.clears(0.2)
    assert not gain.clears(0.21)
    with pytest.raises(ValueError, match="positive"):
        estimated_gain(1.0, 0.0)


def test_providers_are_those_of_the_device():
    assert {one.name for one in providers_on(this_machine("npu"))} == {
        Contiguous.name, NpuFormat.name, NpuAttention.name,
    }  # fmt: skip
    assert not {NpuFormat.name, NpuAttention.name} & {one.name for one in providers_on(MACHINE)}


def test_weights_in_the_chips_format_are_found_kept_and_not_estimated_again(tmp_path: Path):
    source = source_of(Net(), torch.randn(4, 16, 28, 28), tmp_path)
    result = tuned(source, tmp_path)
    found = gains(result)
    assert set(found) == {"conv2d npu_format weight=FRACTAL_Z", "linear npu_format weight=FRACTAL_NZ"}
    assert all(gain.is_estimate and gain.ratio > 1.02 and gain.num_pairs == 0 for gain in found.values())
    assert result.status == "successful"
    assert "an estimate" in result.composed[0].told
    assert result.composed[0].gain is not None
    assert result.composed[0].gain.before_us > sum(gain.before_us for gain in found.values())
    again = tuned(source, tmp_path)
    assert gains(again) == found
    assert again.num_trials == 0
    assert again.counters().reserved == 2
    here = Bank.open(tmp_path / "bank")
    assert all(not here.slots(task.use.task, this_machine()) for task in result.tasks)
    here.close()


def test_what_gains_nothing_on_another_chip_is_not_taken_there(tmp_path: Path):
    result = tuned(source_of(Net(), torch.randn(4, 16, 28, 28), tmp_path), tmp_path, "Ascend910B1")
    tried = [one.outcome.gain for task in result.tasks for slot in task.slots for one in slot.tried]
    assert not gains(result)
    assert tried
    assert all(gain is not None and gain.ratio < 1.02 for gain in tried)


@pytest.mark.parametrize("causal", [False, True])
def test_attention_by_the_fused_kernel(tmp_path: Path, causal: bool):
    source = source_of(Attention(causal=causal).half(), torch.randn(2, 64, 64).half(), tmp_path)
    found = gains(tuned(source, tmp_path))
    assert found["scaled_dot_product_attention npu_fusion_attention"].ratio > 1.5


def test_attention_under_a_mask_that_is_a_buffer(tmp_path: Path):
    source = source_of(Masked().half(), torch.randn(2, 64, 64).half(), tmp_path)
    found = gains(tuned(source, tmp_path))
    assert found["scaled_dot_product_attention npu_fusion_attention"].ratio > 1.5


def test_another_result_is_refused_however_fast(tmp_path: Path):
    result = tuned(source_of(Net(), torch.randn(2, 16, 8, 8), tmp_path), tmp_path, providers=[Wrong()])
    (tried,) = [one for task in result.tasks for slot in task.slots for one in slot.tried]
    assert tried.outcome.status == "disagrees"


def test_a_graph_takes_the_fused_kernel_and_the_chips_formats_and_stays_in_the_bank(tmp_path: Path):
    source = source_of(Attention(causal=True).half(), torch.randn(4, 128, 64).half(), tmp_path)
    result = tuned(source, tmp_path, "Ascend310P3", job_type=1)
    (graph,) = result.graphs
    assert graph.failure == ""
    assert graph.plan is not None
    assert graph.gain is not None
    assert "npu_fusion_attention" in str(graph.plan)
    assert graph.gain.is_estimate
    assert graph.gain.ratio > 1.5
    tried = {str(one.plan) for one in graph.attempts if one.outcome.status == "measured"}
    assert {"operators npu_format for 2", "operators npu_format, npu_fusion_attention for 3"} <= tried
    assert any("batch" in one for one in tried)
    assert all(one.outcome.gain.is_estimate for one in graph.attempts if one.outcome.gain is not None)
    again = tuned(source, tmp_path, "Ascend310P3", job_type=1)
    assert (again.graphs[0].plan, again.graphs[0].from_bank, again.num_trials) == (graph.plan, True, 0)
    bank = Bank.open(tmp_path / "bank")
    assert not bank.slots(graph.graph, this_machine())
    bank.close()


def test_operators_keep_their_policies_where_the_batch_is_cut(tmp_path: Path):
    (graph,) = tuned(source_of(Net(), torch.randn(4, 16, 28, 28), tmp_path), tmp_path, job_type=1).graphs
    times = {str(one.plan): one.outcome.gain.after_us for one in graph.attempts if one.outcome.gain is not None}
    assert times["operators npu_format for 2, batch 1+1+1+1"] < 0.995 * times["eager, batch 1+1+1+1"]


def test_what_the_chip_has_not_is_said_in_a_sentence(tmp_path: Path):
    (graph,) = tuned(
        source_of(torch.nn.Linear(8, 8).bfloat16(), torch.randn(2, 8).bfloat16(), tmp_path), tmp_path, job_type=1
    ).graphs
    assert "Ascend910A takes no bfloat16" in graph.failure
    assert "error code" not in graph.failure


class Expanded(torch.nn.Module):
    """Returns what is expanded."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(16, 16)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return self.linear(x), (x > 0).any(-1)[:, None].expand(-1, 8)


def test_outputs_that_are_expanded_come_back_from_the_device(tmp_path: Path):
    (graph,) = tuned(source_of(Expanded(), torch.randn(2, 16), tmp_path), tmp_path, job_type=1).graphs
    assert graph.failure == ""
    assert graph.attempts
    assert all(one.outcome.status == "measured" for one in graph.attempts if not one.is_left_out)


def test_what_is_written_to_an_input_on_the_device_is_compared():
    device = Accelerator("cpu")
    state, x, wide = torch.zeros(4, 4).t(), torch.ones(4, 4), torch.zeros(1).expand(3)
    made = device.hosted(lambda state, x, wide: state.add_(x) + wide.sum())(state, x, wide)
    assert torch.equal(made, torch.ones(4, 4))
    assert torch.equal(state, torch.ones(4, 4))
    assert torch.equal(x, torch.ones(4, 4))


def test_the_kernel_for_normalisations_of_the_cpu_is_not_offered_for_an_npu():
    names = ("input", "weight", "bias")
    image = TensorSpec(shape=(2, 8, 4, 4), dtype="float32", stride=(128, 16, 4, 1))
    channels = TensorSpec(shape=(8,), dtype="float32", stride=(1,))
    node = Node(
        operator="aten::batch_norm",
        arguments=[*({"value": place} for place in range(len(names))), None, None, True, 0.1, 1e-5, False],
    )
    conv = Node(operator="aten::max_pool2d", arguments=[{"value": 0}, [2, 2]])
    graph = Graph(inputs=[image, channels, channels], nodes=[conv, node], outputs=[3, 4], gradients=[0])
    machines = (replace(MACHINE, compiler="g++"), this_machine("npu"))
    on_cpu, on_npu = (Eager().settings(graph, machine) for machine in machines)
    assert any(one.get("norms") for one in on_cpu)
    assert on_npu
    assert not any(one.get("norms") for one in on_npu)


class Positions(torch.nn.Module):
    """Makes a tensor of its own, which belongs on the device."""

    def __init__(self) -> None:
        super().__init__()
        self.table = torch.nn.Embedding(32, 16)
        self.linear = torch.nn.Linear(16, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(x + self.table(torch.arange(x.shape[1], device=x.device)))


def test_tensors_that_a_graph_makes_are_made_on_the_device(tmp_path: Path):
    source = source_of(Positions(), torch.randn(2, 8, 16), tmp_path)
    (graph,) = tuned(source, tmp_path, job_type=1).graphs
    assert graph.failure == ""
    assert graph.attempts
    assert all(one.outcome.status == "measured" for one in graph.attempts if not one.is_left_out)


@pytest.mark.parametrize(
    ("fields", "precision", "said"),
    [
        ({"device": "cuda", "capability": "sm_90"}, None, "--job-type 1 is for cpu and npu, and --device is cuda"),
        ({}, PrecisionOptions(precision="auto"), "--precision lowers graphs for the CPU"),
    ],
)
def test_what_is_not_done_for_graphs_is_one_sentence(tmp_path: Path, fields, precision, said: str):
    source = source_of(Net(), torch.randn(2, 16, 8, 8), tmp_path)
    machine = replace(this_machine("npu"), **fields)
    bank = Bank.open(tmp_path)
    with pytest.raises(UsageError, match=said):
        tune(
            source, bank=bank, result_folder=tmp_path, machine=machine, options=TuneOptions(job_type=1),
            precision=precision,
        )  # fmt: skip
    bank.close()


def spec(*shape: int, dtype: str = "float16", constant: bool = False) -> TensorSpec:
    return TensorSpec(shape=shape, dtype=dtype, stride=contiguous_stride(shape), constant=constant)


def attention(**arguments) -> Task:
    tensors = {name: arguments.pop(name, spec(2, 4, 32, 16)) for name in ("query", "key", "value")}
    if "attn_mask" in arguments:
        tensors["attn_mask"] = arguments.pop("attn_mask")
    return Task(
        operator="aten::scaled_dot_product_attention", tensors=tensors,
        arguments={"dropout_p": 0.0, "is_causal": False, "scale": None, "enable_gqa": False} | arguments,
    )  # fmt: skip


@pytest.mark.parametrize(
    "task",
    [
        attention(query=spec(2, 4, 32, 16, dtype="float32")),
        attention(query=spec(2, 8, 32, 16)),
        attention(value=spec(2, 4, 32, 32)),
        attention(query=spec(8, 32, 16)),
        attention(dropout_p=0.1),
        attention(attn_mask=spec(32, 32, dtype="float16")),
        attention(query=spec(2, 4, 8, 16), is_causal=True),
        *(attention(**dict.fromkeys(("query", "key", "value"), spec(2, 4, 32, size))) for size in (20, 528)),
    ],
)  # fmt: skip
def test_attention_that_the_kernel_does_not_compute_is_not_offered(task: Task):
    machine = this_machine("npu")
    assert NpuAttention().candidates(attention(), machine)
    assert NpuAttention().candidates(attention(attn_mask=spec(32, 32, dtype="bool")), machine)
    assert not NpuAttention().candidates(task, machine)


def test_a_weight_that_changes_is_not_cast_once():
    machine = this_machine("npu")
    given = {"self": spec(8, 16), "mat2": spec(16, 32, constant=True)}
    assert NpuFormat().candidates(Task(operator="aten::mm", tensors=given, arguments={}), machine)
    given["mat2"] = spec(16, 32)
    assert not NpuFormat().candidates(Task(operator="aten::mm", tensors=given, arguments={}), machine)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_a_device_that_is_not_here_is_one_sentence():
    with pytest.raises(UsageError, match='no device for "--device cuda" on this machine'):
        this_machine("cuda")


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_operators_are_measured_on_cuda(tmp_path: Path):
    source = source_of(Net(), torch.randn(4, 16, 28, 28), tmp_path)
    (tmp_path / "bank").mkdir()
    bank = Bank.open(tmp_path / "bank")
    result = tune(source, bank=bank, result_folder=tmp_path, machine=this_machine("cuda"), options=TuneOptions())
    bank.close()
    tried = [one.outcome for task in result.tasks for slot in task.slots for one in slot.tried]
    assert {"measured"} <= {one.status for one in tried}
    assert not any(one.gain.is_estimate for one in tried if one.gain is not None)


def test_an_accelerator_is_measured_until_its_work_has_ended(tmp_path: Path):
    """The emulated NPU stands in for a device: only that it is waited for, and where tensors are, is judged."""
    code = """
import sys, torch
from jumar.device import DevicePlan, activate
activate(DevicePlan(real="never", num_devices=1))
from jumar.tune.measure.options import PrecisionOptions
from jumar.tune.model.gate import Gain
from jumar.tune.model.task import Task, TensorSpec
from jumar.tune.measure.worker.devices import Accelerator
from jumar.tune.measure.worker.messages import Effort, Trial
from jumar.tune.measure.worker.trial import run_trial
from jumar.tune.providers import PROVIDERS
from pathlib import Path
waits = []
module = torch.get_device_module("npu")
synchronize, seen = module.synchronize, set()
module.synchronize = lambda: (waits.append(1), synchronize())
class Device(Accelerator):
    def site(self, site):
        placed = super().site(site)
        seen.update(tensor.device.type for tensor in placed.example)
        return placed
spec = TensorSpec(shape=(64, 32), dtype="float32", stride=(1, 64))
other = TensorSpec(shape=(32, 16), dtype="float32", stride=(16, 1))
task = Task(operator="aten::mm", tensors={"self": spec, "mat2": other}, arguments={})
contiguous = PROVIDERS[0]
trial = Trial(task=task, incumbent=(), candidate=(contiguous.policy(),), num_threads=1,
              effort=Effort(seconds=0.05, min_pairs=7, max_pairs=7, max_wait_share=1e9))
outcome = run_trial(trial, PROVIDERS, lambda phase: None, Path(sys.argv[1]), Device("npu"))
assert outcome.status == "measured", outcome
assert not outcome.gain.is_estimate and outcome.gain.num_pairs >= 7
assert seen == {"npu"}
assert len(waits) > 14 * outcome.gain.calls_per_sample
print("fine")
"""
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=False)
    assert done.stdout.strip().endswith("fine"), done.stderr


@pytest.mark.parametrize(
    ("recorded", "tuned_for", "is_another"),
    [
        ("npu (emulated)", "npu", False),
        ("Ascend910A", "npu:Ascend910A", False),
        ("Ascend910A", "npu:Ascend910B1", True),
        ("cpu", "npu", True),
        ("cpu", "cpu", False),
    ],
)
def test_which_device_a_recording_is_of(recorded: str, tuned_for: str, is_another: bool):
    result = TuneResult(recording="r", recorded_device=recorded, machine=this_machine(tuned_for), min_gain=0.02)
    assert result.is_of_another_device == is_another
    captured = TuneResult(
        recording="net:make", recorded_device=recorded, machine=this_machine(tuned_for), min_gain=0.02, is_offline=True
    )
    assert not captured.is_of_another_device
