"""Affinity rewrites: before and after, and code that looks alike and computes something else."""

from __future__ import annotations

from textwrap import dedent

import pytest
from convert_cases import rules_in
from opt_in_cases import converted_with, findings_with, page_block, unchanged_with

from jumar.convert import ConvertOptions, convert_source

MODULES = rules_in("jumar.convert.rules.affinity")
EDITED = [rule for rule in MODULES if rule.safety is not None]
TORCH = "import torch\nimport torch.nn.functional as F\n"


def test_the_affinity_rules_have_the_codes_from_165_to_174() -> None:
    assert [rule.code for rule in MODULES] == [f"JM{number}" for number in range(165, 175)]
    assert all(rule.opt_in for rule in MODULES)


@pytest.mark.parametrize("rule", EDITED, ids=lambda rule: rule.code)
def test_the_example_of_a_rewrite_becomes_what_its_page_promises(rule) -> None:  # type: ignore[no-untyped-def]
    example, promised = page_block(rule, "Example"), page_block(rule, "Use instead")
    assert converted_with("import torch\n" + example, rule.code) == "import torch\n" + promised


@pytest.mark.parametrize("rule", MODULES, ids=lambda rule: rule.code)
def test_without_being_asked_for_a_rewrite_says_nothing(rule) -> None:  # type: ignore[no-untyped-def]
    found = convert_source("import torch\n" + page_block(rule, "Example"), "a.py", ConvertOptions(unsafe=True))
    assert rule.code not in {finding.code for finding in found.findings}


SHUFFLE = """\
import torch
def shuffle(x, g):
    b, c, h, w = x.size()
    x = x.view(b, g, c // g, h, w){between}
    x = {swap}
    return x.view({back})
"""


@pytest.mark.parametrize(
    ("swap", "back"),
    [
        ("x.transpose(1, 3).contiguous()", "b, -1, h, w"),
        ("x.permute(0, 2, 1, 4, 3).contiguous()", "b, -1, w, h"),
        ("x.contiguous()", "b, -1, h, w"),
        ("x.transpose(1, 2).contiguous()", "b, -1, w, h"),
        ("x.transpose(1, 2).contiguous()", "b, c // 2, h, w"),
        ("x.transpose(1, 2).contiguous()", "b, c, h * w"),
        ("f(x.transpose(1, 2))", "b, -1, h, w"),
    ],
)
def test_other_rearrangements_are_no_channel_shuffle(swap: str, back: str) -> None:
    assert unchanged_with(SHUFFLE.format(between="", swap=swap, back=back), "JM165") == []


def test_a_part_that_is_used_elsewhere_keeps_the_composition() -> None:
    between = "\n    log(x)"
    source = SHUFFLE.format(between=between, swap="x.transpose(1, 2).contiguous()", back="b, -1, h, w")
    (finding,) = unchanged_with(source, "JM165")
    assert "used elsewhere" in finding.message
    assert "index_select" in finding.action


def test_a_tensor_that_is_written_to_in_between_keeps_the_composition() -> None:
    source = TORCH + "def f(x):\n    s = torch.sigmoid(x)\n    x.add_(1)\n    return x * s\n"
    assert unchanged_with(source, "JM168") == []
    source = TORCH + "def f(x):\n    s = torch.sigmoid(x)\n    x += 1\n    return x * s\n"
    assert unchanged_with(source, "JM168") == []
    source = TORCH + "def f(x):\n    s = torch.sigmoid(x)\n    x[0] = 1\n    return x * s\n"
    assert unchanged_with(source, "JM168") == []


def test_a_variable_that_holds_something_else_in_a_branch_keeps_the_composition() -> None:
    source = TORCH + "def f(x):\n    s = torch.sigmoid(x)\n    if a:\n        x = x + 1\n    return x * s\n"
    assert unchanged_with(source, "JM168") == []


def test_what_is_computed_twice_stays_computed_twice() -> None:
    (finding,) = unchanged_with(TORCH + "def f(g):\n    return g() * torch.sigmoid(g())\n", "JM168")
    assert "several times" in finding.message


def test_names_do_not_matter_and_functions_of_the_file_are_not_taken_for_torch_s() -> None:
    source = "from torch import sigmoid as gate\ndef relu(z):\n    return z * gate(z)\n"
    assert "no name" in findings_with(source, "JM168")[0].message
    own = "import torch\ndef sigmoid(x): return x\ndef f(x):\n    return x * sigmoid(x)\n"
    assert unchanged_with(own, "JM168") == []


def test_comments_on_lines_of_their_own_and_behind_statements_stay() -> None:
    source = """\
    import torch
    import torch.nn.functional as F
    def attend(q, k, v):
        # scores
        s = q @ k.transpose(-2, -1)  # all pairs
        # weights
        w = s.softmax(-1)
        return w @ v  # values
    """
    expected = """\
    import torch
    import torch.nn.functional as F
    def attend(q, k, v):
        # scores
        # all pairs
        # weights
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, scale=1.0)  # values
    """
    assert converted_with(source, "JM167") == dedent(expected)


ATTEND = """\
import math
import torch
import torch.nn as nn
import torch.nn.functional as F
class A(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.scale = {scale}
        self.drop = {drop}
    def forward(self, q, k, v, mask=None):
        s = (q @ k.transpose(-2, -1)) * self.scale
        s = {masked}
        w = {softmax}
        w = self.drop(w)
        {between}
        return w @ v
"""
USUAL = {
    "scale": "dim ** -0.5",
    "drop": "nn.Dropout(0.1)",
    "masked": "s.masked_fill(mask, float('-inf'))",
    "softmax": "F.softmax(s, dim=-1)",
    "between": "pass",
}


def test_scale_mask_and_dropout_become_arguments() -> None:
    after = converted_with(ATTEND.format(**USUAL), "JM167")
    call = (
        "scaled_dot_product_attention(q, k, v, attn_mask=~(mask), "
        "dropout_p=self.drop.p if self.drop.training else 0.0, scale=self.scale)"
    )
    assert f"        return torch.nn.functional.{call}\n" in after


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"scale": "nn.Parameter(torch.ones(1))"}, "scale may be a tensor"),
        ({"between": "self.last = w"}, "used elsewhere"),
    ],
)
def test_attention_that_no_kernel_computes_is_left_and_reported(changed: dict[str, str], reason: str) -> None:
    (finding,) = unchanged_with(ATTEND.format(**{**USUAL, **changed}), "JM167")
    assert reason in finding.message


@pytest.mark.parametrize(
    "changed",
    [
        {"softmax": "F.softmax(s, dim=-2)"},
        {"softmax": "F.softmax(s, dim=1)"},
        {"masked": "s.masked_fill(mask, 0.0)"},
        {"masked": "torch.clamp(s, max=5)"},
        {"drop": "Mine(0.1)"},
    ],
)
def test_other_compositions_are_no_attention(changed: dict[str, str]) -> None:
    assert unchanged_with(ATTEND.format(**{**USUAL, **changed}), "JM167") == []


@pytest.mark.parametrize(
    "body",
    [
        "x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)",
        "w * (x * torch.rsqrt(x.pow(2).mean(0, keepdim=True) + 1e-6))",
        "w * (x * torch.rsqrt(x.pow(2).mean(-1) + 1e-6))",
        "w * (x * torch.rsqrt(x.pow(3).mean(-1, keepdim=True) + 1e-6))",
        "w * (x * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + 1e-6))",
    ],
)
def test_other_normalizations_stay(body: str) -> None:
    assert unchanged_with(f"import torch\ndef f(x, w, y):\n    return {body}\n", "JM169") == []


@pytest.mark.parametrize(
    "rotation",
    [
        "torch.cat((x[..., h:], x[..., :h]), dim=-1)",
        "torch.cat((-x[..., :h], x[..., h:]), dim=-1)",
        "torch.cat((-x[..., h:], x[..., :h]), dim=0)",
        "torch.stack((-x[..., 1::2], x[..., ::2]), -1).flatten(-2)",
    ],
)
def test_other_rotations_stay(rotation: str) -> None:
    source = f"""\
    import torch
    def rotate_half(x):
        h = x.shape[-1] // 2
        return {rotation}
    def f(x, cos, sin):
        return x * cos[:, None] + rotate_half(x) * sin[:, None]
    """
    assert unchanged_with(source, "JM170") == []


@pytest.mark.parametrize(
    "source",
    [
        "a, b = x.chunk(2, dim=-1)\n    return F.silu(b) * a",
        "a, b = x.chunk(4, dim=-1)[:2]\n    return F.silu(a) * b",
        "a, b = x.chunk(2, dim=-1)\n    return F.gelu(a) * b",
        "a, b = x.chunk(2, dim=-1)\n    return F.silu(a) * b + a",
    ],
)
def test_other_gates_are_no_swiglu_or_are_reported(source: str) -> None:
    for finding in unchanged_with(TORCH + f"def f(x):\n    {source}\n", "JM171"):
        assert "used elsewhere" in finding.message


@pytest.mark.parametrize(
    "body",
    [
        "x[x < 0] = 0",
        "x = np.zeros(3)\n    x[x < 0] = 0",
        "x = torch.relu(y).numpy()\n    x[x < 0] = 0",
        "x = torch.relu(y)\n    x[y < 0] = 0",
        "x = torch.relu(y)\n    x[x < y] = 0",
        "x = torch.relu(y)\n    x[x < 0] = z",
        "x = torch.relu(y)\n    x[x < 0, 1] = 0",
    ],
)
def test_assignments_that_may_not_be_a_fill_of_a_tensor_stay(body: str) -> None:
    assert unchanged_with(f"import torch\nimport numpy as np\ndef f(x, y, z):\n    {body}\n", "JM172") == []


def test_an_input_of_a_module_is_a_tensor() -> None:
    source = (
        "import torch\nclass N(torch.nn.Module):\n    def forward(self, x):\n        x[x > 1] = 1.5\n        return x\n"
    )
    assert "        x.masked_fill_(x > 1, 1.5)\n" in converted_with(source, "JM172")


@pytest.mark.parametrize("code", ["JM170", "JM171"])
def test_what_only_torch_npu_has_is_reported_for_any_accelerator(code: str) -> None:
    rule = next(rule for rule in MODULES if rule.code == code)
    (finding,) = unchanged_with("import torch\n" + page_block(rule, "Example"), code, target="agnostic")
    assert "torch_npu" in finding.message


def test_for_any_accelerator_normalization_and_attention_are_pytorch_s() -> None:
    norm = next(rule for rule in MODULES if rule.code == "JM169")
    after = converted_with("import torch\n" + page_block(norm, "Example"), "JM169", target="agnostic")
    assert "torch.nn.functional.rms_norm(x, self.weight.shape, self.weight, self.eps)" in after


@pytest.mark.parametrize(
    "source",
    [
        "from torchvision.ops import nms\nnms(b, s, 0.5)\n",
        "import torchvision\ntorchvision.ops.roi_align(x, b, 7)\n",
        "import torch\ntorch.roll(x, 1)\n",
        "from mmcv.ops import ModulatedDeformConv2d\nModulatedDeformConv2d(1, 1, 3)\n",
    ],
)
def test_functions_with_a_counterpart_are_reported_with_what_differs(source: str) -> None:
    (finding,) = unchanged_with(source, "JM174")
    assert finding.action.startswith("Consider torch_npu.")


def test_stochastic_depth_is_reported_however_it_is_drawn() -> None:
    source = """\
    import torch
    def drop_path(x, keep):
        shape = (x.shape[0],) + (1,) * (x.ndim - 1)
        mask = x.new_empty(shape).bernoulli_(keep)
        return x * mask
    """
    assert len(unchanged_with(source, "JM173")) == 1
    assert unchanged_with("import torch\ndef noise(x):\n    n = torch.rand(3, 4)\n    return x * n\n", "JM173") == []
