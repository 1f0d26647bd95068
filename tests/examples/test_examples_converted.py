"""The converted examples on the emulated NPU compute what the originals compute where CPU kernels stand in for CUDA."""

from __future__ import annotations

import ast
from collections.abc import Callable
from pathlib import Path

import pytest
from example_runs import EXAMPLES, SMALL, assert_same_checkpoints

from jumar.convert import ConvertOptions, convert_files, local_modules

ALL = sorted(SMALL)
MODULES = {
    "gpt": {"train.py", "model.py", "prepare.py"},
    "imagenet": {"train.py", "resnet.py", "synthetic.py"},
    "shufflenet": {"train.py", "shufflenetv2.py"},
}


@pytest.fixture(scope="session")
def converted(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Convert an example once and return its converted script."""
    made: dict[str, Path] = {}

    def convert(example: str) -> Path:
        if example not in made:
            root = EXAMPLES / example
            out = tmp_path_factory.mktemp("converted") / example
            files = local_modules(root / "train.py")
            convert_files(root, files, ConvertOptions()).write(out, force=False)
            made[example] = out / "train.py"
        return made[example]

    return convert


@pytest.mark.parametrize("example", ALL)
def test_the_modules_beside_a_script_are_found(example):
    assert MODULES[example] == {path.name for path in local_modules(EXAMPLES / example / "train.py")}


@pytest.mark.parametrize("example", ALL)
def test_the_converted_script_names_no_cuda_device_any_more(converted, example):
    tree = ast.parse(converted(example).read_text())
    strings = {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)}
    attributes = {ast.unparse(node) for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    assert "torch.npu.is_available" in attributes
    assert [name for name in attributes if name.startswith("torch.cuda")] == []
    assert not strings & {"cuda", "cuda:", "cuda:{}", "nccl"}


@pytest.mark.parametrize("example", ["imagenet", "shufflenet"])
def test_weights_after_three_steps_on_the_npu_equal_the_reference_bit_for_bit(run, converted, example):
    reference, target = run(example), run(example, kind="npu", script=converted(example))
    assert reference.losses == target.losses
    assert_same_checkpoints(reference, target, example)


def test_losses_of_the_gpt_on_the_npu_equal_the_reference_up_to_the_optimizer_it_chooses(run, converted):
    reference, target = run("gpt"), run("gpt", kind="npu", script=converted("gpt"))
    # the script asks for the fused optimizer on CUDA only, and the two round differently
    assert "using fused AdamW: True" in reference.output
    assert "using fused AdamW: False" in target.output
    assert reference.losses[0] == target.losses[0]
    assert [float(loss) for loss in reference.losses] == pytest.approx(
        [float(loss) for loss in target.losses], rel=1e-5
    )


@pytest.mark.parametrize("example", ["imagenet", "shufflenet"])
def test_mixed_precision_on_the_npu_equals_the_reference(run, converted, example):
    reference = run(example, "--amp")
    target = run(example, "--amp", kind="npu", script=converted(example))
    assert reference.losses == target.losses


def test_mixed_precision_of_the_gpt_on_the_npu_equals_the_reference_before_the_first_step(run, converted):
    reference = run("gpt", "--dtype", "bfloat16")
    target = run("gpt", "--dtype", "bfloat16", kind="npu", script=converted("gpt"))
    assert reference.losses[0] == target.losses[0]
