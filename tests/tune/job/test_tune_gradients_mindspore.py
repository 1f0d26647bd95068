"""`jumar tune RECORDING --job-type 4` of MindSpore: its own line to paste, times of the recording or of a profile."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from jumar.base.errors import InputError, UsageError
from jumar.recording import CallRow, TensorRow
from jumar.show.tuning.gradients import gradients_page, to_paste
from jumar.tune.job.gradients.messages import GradientOptions
from jumar.tune.job.gradients.offline.profiled import Profiled, place_of, read_profile
from jumar.tune.job.gradients.offline.recorded import with_untimed
from jumar.tune.job.gradients.offline.solved import tune_recording
from jumar.tune.search.gradients.model import Link

SCRIPT = Path(__file__).with_name("resnet50_mindspore.py")
FIXTURES = Path(__file__).parents[2] / "fixtures" / "timeline" / "mindspore"
NUM_WEIGHTS = 161
PLACE = "Gradients/Default/network-WithLossCell/_backbone-Net"
OPTIONS = GradientOptions(link=Link(latency_s=1e-6, bandwidth=1e9))
FUSION = """
from mindspore.nn.wrap.grad_reducer import _init_allreduce_operators
print([one.fusion for one in _init_allreduce_operators({length}, {config})])
"""


def ran(python: Path, folder: Path, *words: str) -> str:
    done = subprocess.run([str(python), *words], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def resnet(mindspore: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with `recording` and `profile` of the same ResNet-50, the profile of its graph."""
    folder = tmp_path_factory.mktemp("resnet")
    (folder / "train.py").write_text(SCRIPT.read_text("utf-8"), "utf-8")
    words = ("-m", "jumar", "record", "-o", "recording", "--device", "cpu", "--values", "none", "train.py")
    ran(mindspore, folder, *words)
    ran(mindspore, folder, "train.py", "profile")
    return folder


@pytest.mark.slow
def test_an_installation_without_torch_splits_161_weights(resnet: Path, mindspore: Path) -> None:
    words = ("-m", "jumar", "tune", "recording", "--job-type", "4", "--allreduce", "20us,1GB/s", "--json")
    found: dict[str, Any] = json.loads(ran(mindspore, resnet, *words))
    gradients = found["gradients"]
    assert [one["place"] for one in gradients] == list(range(NUM_WEIGHTS - 1, -1, -1)), "the last parameter first"
    ready = [one["ready_ns"] for one in gradients]
    assert ready == sorted(ready)
    assert len(set(ready)) > 20, "the backward pass is not over at once"
    names = {one["place"]: one["name"] for one in gradients}
    assert (names[0], names[NUM_WEIGHTS - 1]) == ("conv1.weight", "fc.bias")
    assert found["own"]["num_buckets"] == 1, "MindSpore fuses all gradients into one AllReduce"
    assert found["split"]["tail_s"] < found["own"]["tail_s"]
    assert found["times_source"].startswith("The ready times are estimates")


@pytest.mark.slow
def test_mindspore_cuts_where_the_pasted_line_says(resnet: Path, mindspore: Path) -> None:
    found = tune_recording(resnet / "recording", result_folder=resnet, options=OPTIONS)
    config = found.forms.all_reduce_fusion_config
    assert config[-1] == NUM_WEIGHTS - 1
    line, numbers = (str(text) for _, text in to_paste(found))
    assert line.startswith(f"ms.set_auto_parallel_context(all_reduce_fusion_config=[{', '.join(map(str, config))}])")
    assert f"{NUM_WEIGHTS - 1} fc.bias" in numbers
    assert "DDP" not in str(gradients_page(found))
    pasted = f"import mindspore as ms\n{line}\n" + FUSION.format(length=NUM_WEIGHTS, config=list(config))
    fused: list[int] = json.loads(ran(mindspore, resnet, "-c", pasted).splitlines()[-1])
    assert [place for place in range(NUM_WEIGHTS - 1) if fused[place] != fused[place + 1]] == list(config[:-1])


@pytest.mark.slow
def test_a_profile_of_the_graph_gives_the_ready_times(resnet: Path) -> None:
    plain = tune_recording(resnet / "recording", result_folder=resnet, options=OPTIONS)
    found = tune_recording(resnet / "recording", result_folder=resnet, options=OPTIONS, times=resnet / "profile")
    assert "2 steps" in found.times_source
    assert "not on an NPU" in found.times_source
    assert "no time of their own" not in found.times_source
    assert [one.name for one in found.gradients] == [one.name for one in plain.gradients]
    assert [one.ready_ns for one in found.gradients] != [one.ready_ns for one in plain.gradients]


@pytest.mark.slow
def test_a_profile_that_names_no_place_is_refused(resnet: Path) -> None:
    with pytest.raises(
        InputError, match=r"no operator that names the backward pass of BatchNorm2d, Conv2d.*GRAPH_MODE"
    ):
        tune_recording(resnet / "recording", result_folder=resnet, options=OPTIONS, times=FIXTURES / "cpu_ascend_ms")


def test_times_are_for_mindspore(tmp_path: Path) -> None:
    from tune_builders import write_recording

    write_recording(tmp_path / "recording", [])
    with pytest.raises(UsageError, match="--times is for a recording of MindSpore"):
        tune_recording(tmp_path / "recording", result_folder=tmp_path, options=OPTIONS, times=tmp_path)


@pytest.mark.parametrize(
    ("name", "place"),
    [
        (f"{PLACE}/conv1-Conv2d/Grad_Conv2D/Conv2DBackpropFilter-op7", ("Conv2d", "Conv2DBackpropFilter")),
        (f"{PLACE}/conv1-Conv2d/Grad_Conv2D/Conv2DBackpropInput-op7", None),
        (f"{PLACE}/conv1-Conv2d/gradConv2D/Conv2DBackpropFilter-op12", ("Conv2d", "Conv2DBackpropFilter")),
        (f"{PLACE}/Grad_Mul/Mul-op1", ("Net", "Mul")),
        ("Gradients/Default/Mul-op1", None),
    ],
)
def test_an_operator_says_the_class_of_its_cell(name: str, place: tuple[str, str] | None) -> None:
    assert place_of(name) == place


def profiled(**ends: list[float]) -> Profiled:
    places = {(name.split("_")[0], name.split("_")[1]): found for name, found in ends.items()}
    return Profiled(path=Path("profile"), ends_us=places, num_steps=1, device="npu", all_reduces=())


LAYERS = [("Dense", "b"), ("Conv2d", "c"), ("Dense", "a")]


@pytest.mark.parametrize(
    ("ends", "ready"),
    [
        ({"Dense_BiasAddGrad": [1.0, 5.0]}, {"b": 1.0, "a": 5.0}),
        ({"Dense_MatMul": [1.0, 2.0, 5.0, 6.0]}, {"b": 2.0, "a": 6.0}),
        ({"Dense_MatMul": [1.0, 2.0, 5.0]}, {"b": 2.0, "a": 5.0}),  # the network's input needs no gradient
        ({"Dense_MatMul": [1.0, 2.0, 5.0], "Dense_BiasAddGrad": [3.0, 4.0]}, {"b": 3.0, "a": 5.0}),
        ({"Dense_MatMul": [1.0]}, {}),
        (
            {"Conv2d_Conv2DBackpropFilter": [1.0], "Dense_MatMul": [1.0, 2.0, 3.0, 4.0, 5.0]},
            {"c": 1.0, "b": 3.0, "a": 5.0},
        ),
        ({"Dense_AddN": [1.0] * 7}, {"b": 1.0, "a": 1.0}),
        ({"LayerNorm_LayerNormGrad": [1.0]}, {}),
    ],
)
def test_operators_are_shared_among_the_layers_of_their_class(ends: dict[str, list[float]], ready: dict) -> None:
    assert profiled(**ends).ready_us(LAYERS) == ready


def test_a_parameter_without_a_time_is_ready_with_the_one_before_it() -> None:
    assert with_untimed(["a", "b", "c", "d"], {"b": 7.0, "d": 3.0}) == {"a": 7.0, "b": 7.0, "c": 7.0, "d": 3.0}


HEAD = "Device_id,Name,Type,Accelerator Core,Start Time(us),Duration(us),Wait Time(us),Block Num\n"


def write_npu_profile(folder: Path, sizes: dict[str, float]) -> Path:
    """Write kernels of two steps of two layers, and all-reduces of so many MB, in the columns of the vendor's files."""
    output = folder / "vm_1_ascend_ms" / "ASCEND_PROFILER_OUTPUT"
    output.mkdir(parents=True)
    rows, told = [], {}
    for step in range(2):
        begin = 1000 + step * 10_000
        for number, (layer, operator) in enumerate([("Dense", "MatMul"), ("Conv2d", "Conv2DBackpropFilter")]):
            name = f"{PLACE}/x-{layer}/Grad_X/{operator}-op0"
            rows.append(f"0,{name},{operator},AI_CORE,{begin + number * 300},200,0,8\n")
        for number, (name, size) in enumerate(sizes.items()):
            start, short = begin + 1000 * (number + 1), f"hcom_allReduce__{name}_{step}_1"
            rows.append(f"0,{short},hcom_allReduce_,HCCL,{start},{100 + size * 100},0,0\n")
            told[f"{short}@7"] = {
                "Communication Time Info": {
                    "Start Timestamp(us)": start, "Elapse Time(ms)": (100 + size * 100) / 1000,
                },
                "Communication Bandwidth Info": {"HCCS": {"Transit Size(MB)": size}},
            }  # fmt: skip
    (output / "kernel_details.csv").write_text(HEAD + "".join(rows), "utf-8")
    (output / "communication.json").write_text(json.dumps({"step": {"collective": told}}), "utf-8")
    return folder


def test_kernels_and_all_reduces_of_an_npu_give_times_and_the_link(tmp_path: Path) -> None:
    found = read_profile(write_npu_profile(tmp_path, {"1": 2.0, "2": 6.0}), {"Dense", "Conv2d"})
    assert found.ready_us([("Dense", "fc"), ("Conv2d", "conv")]) == {"fc": 200.0, "conv": 500.0}
    samples = found.samples(4_000_000)
    assert [size for size, _ in samples] == [1_000_000, 3_000_000], "in proportion to what was sent"
    assert [len(times) for _, times in samples] == [2, 2]


def write_mindspore_recording(folder: Path) -> Path:
    """Write a recording of MindSpore with a step of two layers."""
    from tune_builders import write_recording

    def row(kind: str, phase: str, path: str, type_name: str, name: str, start_us: float) -> CallRow:
        tensor = TensorRow(
            name="input.grad", shape=(250, 1000), dtype="float32", device="cpu", stride=(1000, 1), storage_offset=0,
            contiguous=True,
        )  # fmt: skip
        return CallRow(
            step=0, rank=0, seq=0, kind=kind, phase=phase, module_path=path, module_type=type_name, name=name,
            occurrence=0, start_us=start_us, duration_us=10.0, inputs=(tensor,), outputs=(tensor,),
        )  # fmt: skip

    rows = [
        row("module", "backward", "fc", "Dense", "Dense", 1.0),
        row("module", "backward", "conv", "Conv2d", "Conv2d", 20.0),
        row("parameter", "optimizer", "conv", "Conv2d", "weight", 40.0),
        row("parameter", "optimizer", "fc", "Dense", "weight", 40.0),
    ]
    write_recording(folder, [rows], framework="mindspore")
    return folder


def test_the_link_is_fitted_to_the_profiles_all_reduces(tmp_path: Path) -> None:
    recording = write_mindspore_recording(tmp_path / "recording")
    profile = write_npu_profile(tmp_path / "profile", {"1": 2.0, "2": 6.0})
    found = tune_recording(recording, result_folder=tmp_path, options=GradientOptions(), times=profile)
    assert found.link_source == "of 4 all-reduces of the profile"
    assert found.link.latency_s == pytest.approx(100e-6)
    assert {one.name: one.ready_ns for one in found.gradients} == {"fc.weight": 200_000, "conv.weight": 500_000}
    assert "not on an NPU" not in found.times_source


def test_all_reduces_of_one_size_are_no_link(tmp_path: Path) -> None:
    recording = write_mindspore_recording(tmp_path / "recording")
    profile = write_npu_profile(tmp_path / "profile", {"1": 2.0})
    with pytest.raises(InputError, match=r"all-reduces of one size \(1.91 MiB in 0.3 ms\).*--allreduce 50us,6.67GB/s"):
        tune_recording(recording, result_folder=tmp_path, options=GradientOptions(), times=profile)
