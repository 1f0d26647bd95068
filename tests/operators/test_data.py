"""The packaged data are those of the installed PyTorch, and the judgements name operators that there are."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from jumar.operators import computed, functional_name
from jumar.operators.data import FOLDER, judged, schema_lines
from jumar.operators.data import computed as packaged
from jumar.operators.traits import Computed, Derived, Family, Judged, Trait, all_traits, names_of

SCRIPT = Path(__file__).parents[2] / "scripts" / "build_operators.py"
NO_OPERATOR = {
    "fused_adam",
    "fused_adamw",
    "fused_sgd",
    "linear_cross_entropy",
    "log_softmax_backward",
    "npu_dropout",
    "scaled_dot_product_attention_backward",
    "sgd",
    "softmax_backward",
}
"""Canonical names of which only variants exist, and names that releases of torch_npu had."""
is_same_torch = torch.__version__.partition("+")[0] == packaged()["torch"]
needs_same_torch = pytest.mark.skipif(not is_same_torch, reason="the data are of another release of PyTorch")


@needs_same_torch
def test_the_data_are_what_the_script_writes() -> None:
    # NOTE: in a process of its own, because other tests register operators.
    checked = subprocess.run([sys.executable, str(SCRIPT), "--check"], capture_output=True, text=True, check=False)
    assert (checked.returncode, checked.stderr) == (0, "")


@needs_same_torch
@pytest.mark.parametrize("namespace", ["aten", "prims", "c10d", "_c10d_functional"])
def test_every_operator_of_pytorch_is_there(namespace: str) -> None:
    # NOTE: in a process of its own, because torch.compile registers more operators.
    code = "import torch; print('\\n'.join(torch._C._dispatch_get_all_op_names()))"
    names = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    there = {name for name in names if name.startswith(f"{namespace}::")}
    assert there
    assert there - set(schema_lines()) == set()


def test_every_judged_name_is_an_operator() -> None:
    operators = {functional_name(name) for name in packaged()["operators"]}
    assert set(judged()["operators"]) - operators - NO_OPERATOR == set()


def test_judged_names_are_sorted_and_have_one_line_each() -> None:
    names = list(judged()["operators"])
    lines = (FOLDER / "judged.json").read_text("utf-8").splitlines()
    start = lines.index('"operators": {')
    assert names == sorted(names)
    assert len(lines) - start - 3 == len(names)


def test_every_word_has_a_meaning_and_a_place_in_the_type() -> None:
    words = {word for text in judged()["operators"].values() for word in text.split()}
    assert words - set(judged()["words"]) == set()
    assert set(names_of(Trait)) == set(all_traits())
    assert set(names_of(Computed)) == set(computed.WORDS)
    assert set(judged()["words"]) <= set(names_of(Judged)) | set(names_of(Family)) | set(names_of(Computed))
    assert set(names_of(Derived)).isdisjoint(words)
