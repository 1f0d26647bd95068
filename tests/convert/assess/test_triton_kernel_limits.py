"""`jumar assess` names each Triton kernel, and what triton-ascend documents as missing for what it uses."""

from __future__ import annotations

from pathlib import Path

import pytest

from jumar.base.findings import Finding, Severity
from jumar.convert.assess import assess_source

HEAD = "import triton\nimport triton.language as tl\nfrom triton.language.extra.cuda import libdevice\n\n"


def kernels(folder: Path, body: str, decorators: str = "@triton.jit") -> list[Finding]:
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    (folder / "kernel.py").write_text(f"{HEAD}{decorators}\ndef kernel(x, y, B: tl.constexpr):\n{lines}")
    return [finding for finding in assess_source(folder / "kernel.py").findings if finding.code == "JM209"]


def test_a_kernel_without_a_limit_is_named_with_its_line(tmp_path: Path) -> None:
    (found,) = kernels(tmp_path, "tl.store(y, tl.load(x))")
    assert (found.severity, found.where.line) == (Severity.INFO, 6)
    assert "`kernel`" in found.message


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("tl.store(y, tl.sort(tl.load(x)))", "`tl.sort` takes int8, int16"),
        ("tl.load(x, eviction_policy='evict_first')", "`tl.load` ignores `cache_modifier`"),
        ("tl.atomic_add(y, 1)", "`tl.atomic_add` takes no int64"),
        ("tl.load(x).to(tl.float64)", "`tl.float64` is supported by no operator"),
        ("tl.load(x).to(tl.float8e4nv)", "`tl.float8e4nv` is no dtype"),
        ("libdevice.tanh(x)", "`tl.extra.cuda.libdevice.tanh` holds functions for NVIDIA's chips"),
    ],
)
def test_what_a_kernel_uses_is_looked_up(tmp_path: Path, body: str, expected: str) -> None:
    (found,) = kernels(tmp_path, body)
    assert found.severity == Severity.WARNING
    assert expected in found.message
    assert len(found.evidence["limits"]) == 1  # type: ignore[arg-type]


def test_a_limit_of_an_argument_holds_only_where_the_argument_is_given(tmp_path: Path) -> None:
    (without,) = kernels(tmp_path, "tl.atomic_xor(y, 1)")
    (given,) = kernels(tmp_path, "tl.atomic_xor(y, 1, sem='relaxed')")
    assert (without.evidence["limits"], len(given.evidence["limits"])) == ([], 1)  # type: ignore[arg-type]


def test_configurations_of_the_autotuner_belong_to_their_kernel(tmp_path: Path) -> None:
    decorators = "@triton.autotune(configs=[triton.Config({'B': 1}, num_stages=3, num_warps=4)], key=[])\n@triton.jit"
    (found,) = kernels(tmp_path, "tl.store(y, 1)", decorators)
    assert "`num_stages` of triton.Config does not apply" in found.message


def test_the_same_names_outside_a_kernel_are_no_limit(tmp_path: Path) -> None:
    (tmp_path / "plain.py").write_text(f"{HEAD}DTYPE = tl.float64\n")
    assert not [finding for finding in assess_source(tmp_path / "plain.py").findings if finding.code == "JM209"]
