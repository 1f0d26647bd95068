"""PyTorch beside MindSpore: settings, layers and names in common words, and real pairs with planted faults."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from jumar.comparison import compare
from jumar.comparison.model.frameworks.backward import complete_backward
from jumar.comparison.model.frameworks.layers import in_torch_words, layer_differences
from jumar.comparison.model.frameworks.tables import words_of
from jumar.comparison.model.frameworks.words import torch_optimizer
from jumar.operators import canonical_name
from jumar.recording import RunInfo
from jumar.recording.foreign.values import bare_row, plain_row

SIDES = Path(__file__).parents[2] / "benchmarks" / "mindspore"


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ({"type": "LayerNorm", "epsilon": 1e-7}, {"type": "LayerNorm", "eps": 1e-7}),
        (
            {"type": "Dense", "in_channels": 3, "has_bias": True, "x": 1},
            {"type": "Linear", "in_features": 3, "bias": True},
        ),
        ({"type": "GELU", "approximate": "tanh"}, {"type": "GELU", "approximate": "tanh"}),
        ({"type": "Softmax", "axis": 1}, {"type": "Softmax", "dim": 1}),
    ],
)
def test_layers_are_put_in_pytorchs_words(given, wanted) -> None:
    assert in_torch_words(given, "mindspore") == wanted


@pytest.mark.parametrize(
    ("mode", "kernel", "stride", "padding", "wanted"),
    [
        ("pad", 3, 1, 1, 1),
        ("valid", 3, 1, 0, 0),
        ("same", 3, 1, 0, 1),
        ("same", 5, 1, 0, 2),
        ("same", 1, 2, 0, 0),
        ("same", 3, 2, 0, "same (more at the end)"),
        ("same", 2, 1, 0, "same (more at the end)"),
    ],
)
def test_padding_modes(mode, kernel, stride, padding, wanted) -> None:
    settings = {
        "type": "Conv2d",
        "kernel_size": [kernel] * 2,
        "stride": [stride] * 2,
        "pad_mode": mode,
        "padding": padding,
    }
    assert in_torch_words(settings, "mindspore")["padding"] == wanted


def test_only_what_both_sides_list_is_compared() -> None:
    one = RunInfo(
        layers={"bn": {"type": "BatchNorm2d", "eps": 1e-5, "momentum": 0.1, "affine": True}, "gone": {"type": "ReLU"}}
    )
    other = RunInfo(
        framework="mindspore",
        layers={"bn": {"type": "BatchNorm2d", "eps": 1e-5, "momentum": 0.09999999999999998, "is_training": False}},
    )
    assert layer_differences(one, other, str) == []
    changed = replace(other, layers={"bn": {**other.layers["bn"], "momentum": 0.9}})
    assert [str(one) for one in layer_differences(one, changed, str)] == ["bn (BatchNorm2d): momentum 0.1 against 0.9"]


def test_optimizers_settings_are_put_in_pytorchs_words() -> None:
    given = {"learning_rate": [0.1], "beta1": [0.9], "beta2": [0.99], "use_nesterov": [False], "loss_scale": [1.0]}
    wanted = {"lr": [0.1], "betas": [[0.9, 0.99]], "nesterov": [False]}
    assert torch_optimizer("FusedAdam", given, words_of("mindspore")) == ("Adam", wanted)


def test_operators_have_one_name() -> None:
    assert canonical_name("ms::MatMul") == canonical_name("aten::mm")
    assert canonical_name("ms::Softmax") == canonical_name("aten::_softmax.out")
    assert canonical_name("ms::NotKnown") != canonical_name("aten::mm")


def test_the_backward_pass_is_that_of_modules() -> None:
    tensor = plain_row("grad_output.0", (2,), "float32")
    rows = [
        bare_row("ms::ReLU", (), (), module_path="relu"),
        bare_row("ms::ReluGrad", (), (), phase="backward"),
        bare_row("ReLU", (tensor,), (), kind="module", phase="backward", module_path="relu"),
        bare_row("ms::Mul", (), (), phase="optimizer"),
        bare_row("weight", (replace(tensor, name="input.grad"),), (), kind="parameter", module_path="relu"),
    ]
    found = complete_backward(rows)
    assert [row.name for row in found] == ["ms::ReLU", "backward of ReLU", "weight"]
    assert [tensor.name for tensor in found[1].outputs] == ["grad_weight"]
    assert complete_backward(rows[2:3]) == rows[2:3]


def torch_side(folder: Path, network: str) -> Path:
    words = [str(SIDES / "torch_side.py"), network, "0", str(folder / "weights.npz")]
    command = [sys.executable, "-m", "jumar", "record", "-o", str(folder / "torch"), "--device", "cpu", *words]
    subprocess.run(command, check=True, capture_output=True)
    return folder / "torch"


def mindspore_side(python: Path, folder: Path, network: str, *words: str) -> Path:
    out = folder / "-".join(("ms", *words)).replace(" ", "_")
    command = [
        str(python),
        "-m",
        "jumar",
        "record",
        "-o",
        str(out),
        "--device",
        "cpu",
        str(SIDES / "mindspore_side.py"),
    ]
    subprocess.run([*command, network, str(folder / "weights.npz"), *words], check=True, capture_output=True)
    return out


@pytest.mark.slow
def test_operators_inside_the_named_module_are_paired_by_what_they_calculate(mindspore: Path, tmp_path: Path) -> None:
    reference = torch_side(tmp_path, "unet")
    first = compare(
        reference, mindspore_side(mindspore, tmp_path, "unet", "cell", "order of joined parts")
    ).first_divergence
    assert first is not None
    assert first.note.startswith("inside it aten::cat (")
    assert "and ms::Concat (" in first.note


@pytest.mark.slow
@pytest.mark.parametrize(
    ("network", "form", "faults"),
    [
        ("cnn", "cell", {"batch norm momentum": "bn1", "padding mode": "conv1"}),
        ("transformer", "function", {"softmax axis": "block1.attention.softmax", "layer norm eps": "block1.norm1"}),
        ("lstm", "operation", {"adam beta2": "", "batch first": "lstm"}),
        ("unet", "model", {"frozen parameter": "down2", "slope": "act2"}),
        ("wide", "function", {"swapped tables": "user", "sum for mean": "BCEWithLogitsLoss"}),
    ],
)
def test_a_healthy_pair_agrees_and_a_fault_is_named(
    mindspore: Path, tmp_path: Path, network: str, form: str, faults: dict[str, str]
) -> None:
    reference = torch_side(tmp_path, network)
    healthy = compare(reference, mindspore_side(mindspore, tmp_path, network, form))
    assert healthy.status == "agree", healthy.headline
    for fault, wanted in faults.items():
        found = compare(reference, mindspore_side(mindspore, tmp_path, network, form, fault))
        assert found.status in {"diverge", "differ"}
        layers = [finding for finding in found.findings if finding.code == "JM319"]
        first = found.first_divergence
        named = first.module_path if first is not None else layers[0].where.module_path
        assert named == wanted, found.headline


def test_the_published_scoreboard_is_that_of_the_file() -> None:
    board = json.loads((SIDES / "scoreboard.json").read_text())
    rows = [row for row in board["rows"] if row["fault"]]
    assert board["summary"]["faults"] == len(rows) >= 40
    assert board["summary"]["named exactly"] == sum(row["outcome"] == "named exactly" for row in rows)
    page = (SIDES.parents[1] / "docs" / "mindspore-scoreboard.md").read_text()
    assert f"| {len(rows)} | {board['summary']['named exactly']} " in page
