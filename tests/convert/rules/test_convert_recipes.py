"""Recipes: every code is an opt-in rule, and the guide's makes of the worked example what the guide does by hand."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from jumar.base.rules import Registry
from jumar.convert import ConvertOptions, convert_source
from jumar.convert.rules.manual.program.recipes import RECIPES
from jumar.convert.rules.order import rules_by_code

EXAMPLE = Path(__file__).parents[3] / "examples" / "imagenet" / "train.py"


@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_names_opt_in_rules_once_each(name: str) -> None:
    registry = Registry(rules_by_code().values())
    rules = [registry.find(code) for code in RECIPES[name]]
    assert len(set(RECIPES[name])) == len(rules)
    assert all(rule is not None and rule.opt_in for rule in rules)


def test_the_guide_casts_every_target_of_the_worked_example_and_nothing_else() -> None:
    plain = convert_source(EXAMPLE.read_bytes(), "train.py", ConvertOptions())
    guided = convert_source(EXAMPLE.read_bytes(), "train.py", ConvertOptions(enable=frozenset(RECIPES["guide"])))
    before, after = plain.after.decode().splitlines(), guided.after.decode().splitlines()
    changed = [(old, new) for old, new in zip(before, after, strict=True) if old != new]
    assert [new for _, new in changed] == [
        old.replace("target = target.", "target = target.to(torch.int32).") for old, _ in changed
    ]
    assert len(changed) == 2


def test_the_guide_s_mixed_precision_keeps_what_the_example_has_and_drops_partial_training_batches() -> None:
    guided = convert_source(EXAMPLE.read_bytes(), "train.py", ConvertOptions(enable=frozenset(RECIPES["guide-amp"])))
    text = guided.after.decode()
    assert text.count("drop_last=True") == EXAMPLE.read_text().count("drop_last=True") + 1
    assert text.count("GradScaler(") == 1
    assert "torch_npu.optim.NpuFusedSGD(model.parameters()" in text


def losses(folder: Path, codes: tuple[str, ...]) -> list[str]:
    """What the worked example loses on the emulated NPU, converted with these opt-in rules."""
    folder.mkdir()
    for path in EXAMPLE.parent.glob("*.py"):
        converted = convert_source(path.read_bytes(), path.name, ConvertOptions(enable=frozenset(codes)))
        (folder / path.name).write_bytes(converted.after)
    sizes = ["--steps-per-epoch", "2", "--val-steps", "1", "-b", "4", "--image-size", "32"]
    jumar = [sys.executable, "-c", "from jumar.cli.main import run; run()"]
    command = [*jumar, "run", "--numerics", "exact", "train.py", *sizes]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    return re.findall(r"Loss (\S+)", done.stdout)


@pytest.mark.slow
def test_the_worked_example_trains_the_same_with_the_guide_s_edits(tmp_path: Path) -> None:
    plain = losses(tmp_path / "plain", ())
    assert len(plain) == 3
    assert losses(tmp_path / "guide", RECIPES["guide"]) == plain
    fused = losses(tmp_path / "fused", RECIPES["guide-amp"])
    assert [float(loss) for loss in fused] == pytest.approx([float(loss) for loss in plain], rel=1e-3)
