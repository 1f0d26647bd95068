"""A project's own CUDA kernels: which guards are left, and which PyTorch path a finding names."""

from __future__ import annotations

from pathlib import Path

import pytest

from jumar.base.findings import Finding
from jumar.convert import ConvertOptions, convert_source
from jumar.convert.assess import assess_source

LOAD = 'from torch.utils.cpp_extension import load\nops = load(name="ops", sources=["ops.cpp", "ops_kernel.cu"])\n'


def outcome(source: str) -> tuple[str, list[Finding]]:
    """Return the converted text and the findings."""
    found = convert_source(source, "a.py", ConvertOptions())
    return found.after.decode(), list(found.findings)


@pytest.mark.parametrize(
    "test",
    [
        "torch.cuda.device_count() > 0",
        "torch.cuda.device_count() >= 1",
        "torch.cuda.device_count() != 0",
        "torch.cuda.device_count()",
        "0 < torch.cuda.device_count()",
        "torch.cuda.is_available()",
    ],
)
@pytest.mark.parametrize(
    "body",
    [
        "    import my_ext\n",
        "    from . import _C\n",
        '    from torch.utils.cpp_extension import load\n    ops = load(name="ops", sources=["a.cu"])\n',
        "    import nms_cuda as kernels\n",
    ],
)
def test_a_test_that_guards_an_extension_is_left(test: str, body: str) -> None:
    source = f"import torch\nif {test}:\n{body}"
    text, findings = outcome(source)
    assert text == source
    assert [finding for finding in findings if finding.code == "JM108" and "CUDA-only" in finding.message]


@pytest.mark.parametrize("test", ["torch.cuda.device_count() == 0", "torch.cuda.device_count() < 1"])
def test_the_other_side_of_a_count_is_the_one_with_a_device(test: str) -> None:
    source = f"import torch\nif {test}:\n    ops = None\nelse:\n    import my_ext\n"
    assert outcome(source)[0] == source


@pytest.mark.parametrize(
    "source",
    [
        "if torch.cuda.device_count() > 0:\n    x = x.cuda()\n",
        "n = max(1, torch.cuda.device_count())\n",
        "if torch.cuda.device_count() > 1:\n    import my_ext\n",
        "flag = torch.cuda.device_count() == 0\n",
    ],
)
def test_other_counts_are_converted(source: str) -> None:
    text, _ = outcome(f"import torch\n{source}")
    assert "torch.npu.device_count()" in text


@pytest.mark.parametrize(
    "made",
    [
        "import upfirdn2d_cuda\nbackend = upfirdn2d_cuda\n",
        "import upfirdn2d_cuda as backend\n",
        "import upfirdn2d_cuda\nother = upfirdn2d_cuda\nbackend = other\n",
        LOAD.replace("ops = ", "backend = "),
        'import loader\nbackend = loader.build("ops", ["a.cu"])\n',
    ],
)
def test_a_plain_name_of_a_compiled_module_guards_as_the_module_does(made: str) -> None:
    source = f"import torch\n{made}def f(x):\n    return backend.run(x) if x.is_cuda else x * 3\n"
    text, findings = outcome(source)
    assert "x.is_cuda" in text
    assert [finding for finding in findings if finding.code == "JM108" and "CUDA-only" in finding.message]


def test_a_plain_name_of_anything_else_guards_nothing() -> None:
    source = "import torch, helpers\nbackend = helpers\ndef f(x):\n    return backend.run(x) if x.is_cuda else x\n"
    assert "x.is_npu" in outcome(source)[0]


@pytest.mark.parametrize(
    ("use", "is_left"),
    [
        ("cuda.synchronize()", False),
        ("print(cuda.current_device(), cuda.memory_allocated())", False),
        ("print(cuda.nccl.version())", True),
    ],
)
def test_names_of_a_converted_import_are_not_left_over(use: str, is_left: bool) -> None:
    text, findings = outcome(f"from torch import cuda\n{use}\n")
    assert "from torch import npu as cuda" in text
    found = [finding for finding in findings if finding.code in {"JM114", "JM101"} and finding.where.line == 2]
    assert bool(found) == is_left


PATHS = {
    "a branch": (
        "import torch\ntry:\n    import bias_cuda\n    HAS_EXT = True\nexcept ImportError:\n    HAS_EXT = False\n"
        "def bias(x):\n    if not HAS_EXT:\n        return x + 1\n    return bias_cuda.forward(x)\n",
        "line 9 of bias",
    ),
    "an else": (
        "import torch\nimport bias_cuda\ndef bias(x):\n    if x.is_cuda:\n        y = bias_cuda.forward(x)\n"
        "    else:\n        y = x + 1\n    return y\n",
        "line 7 of bias",
    ),
    "behind a return": (
        "import torch\nimport bias_cuda\ndef bias(x):\n    if x.is_cuda:\n        return bias_cuda.forward(x)\n"
        "    return x + 1\n",
        "line 6 of bias",
    ),
    "a handler": (
        "import torch\ntry:\n    import bias_cuda\nexcept ImportError:\n    import bias_py as bias_cuda\n",
        "line 5",
    ),
    "a conditional expression": (
        f"import torch\n{LOAD}def bias(x):\n    return ops.bias(x) if ok else torch.relu(x)\n",
        "line 5 of bias",
    ),
    **{
        f"the suffix {suffix}": (
            f"import torch\n{LOAD}def bias{suffix}(x):\n    return x\ndef bias(x):\n    return ops.bias(x)\n",
            f"bias{suffix} (line 4)",
        )
        for suffix in ("_reference", "_ref", "_torch", "_native", "_python", "_naive")
    },
    "a function of autograd": (
        f"import torch\n{LOAD}class BiasFunction(torch.autograd.Function):\n    @staticmethod\n"
        "    def forward(ctx, x):\n        return ops.bias_forward(x)\ndef bias_native(x):\n    return x\n",
        "bias_native (line 8)",
    ),
    "a helper that loads": (
        'import torch, loader\np = loader.plugin("bias", ["bias.cu"])\ndef _bias_cuda(x):\n    return p.bias(x)\n'
        "def _bias_ref(x):\n    return x\n",
        "_bias_ref (line 5)",
    ),
    "an import": (
        f"import torch\nfrom .reference import bias_torch\n{LOAD}def bias(x):\n    return ops.bias(x)\n",
        "bias_torch (imported in line 2)",
    ),
}


@pytest.mark.parametrize("layout", PATHS)
def test_the_finding_names_the_pytorch_path(layout: str, tmp_path: Path) -> None:
    source, place = PATHS[layout]
    found = [finding for finding in outcome(source)[1] if finding.code == "JM131"]
    assert any(f"The PyTorch path is there for the NPU: {place}" in finding.action for finding in found), found
    (tmp_path / "a.py").write_text(source)
    assessed = [finding for finding in assess_source(tmp_path / "a.py").findings if finding.code == "JM131"]
    assert any(place in finding.action for finding in assessed)


@pytest.mark.parametrize(
    "source",
    [
        "import torch\nimport nms_cuda\ndef nms(x):\n    return nms_cuda.nms(x)\n",
        f"import torch\n{LOAD}def bias(x):\n    return ops.bias(x)\ndef other_reference(x):\n    return x\n",
        "import torch\ntry:\n    import nms_cuda\nexcept ImportError:\n    print('no nms')\n",
    ],
)
def test_a_kernel_without_a_pytorch_path_is_told_so(source: str) -> None:
    found = [finding for finding in outcome(source)[1] if finding.code == "JM131"]
    assert found
    assert all("No PyTorch path for it was found in this file: write one." in finding.action for finding in found)


def test_assess_names_every_cuda_source_of_a_project(tmp_path: Path) -> None:
    (tmp_path / "setup.py").write_text(
        "from torch.utils.cpp_extension import BuildExtension, CUDAExtension\n"
        'EXT = CUDAExtension("pkg._C", ["csrc/a.cpp", "csrc/b.cu"])\n'
    )
    (tmp_path / "ops.py").write_text(f"import torch\n{LOAD}")
    (tmp_path / "inline.py").write_text(
        "from torch.utils.cpp_extension import load_inline\nm = load_inline('sq', 'int f();', cuda_sources=SRC)\n"
    )
    (tmp_path / "layer.py").write_text(
        "from deepspeed.ops.transformer import DeepSpeedTransformerLayer\nm = DeepSpeedTransformerLayer(c)\n"
    )
    found = {(finding.where.path, finding.code): finding.message for finding in assess_source(tmp_path).findings}
    assert "csrc/b.cu" in found["setup.py", "JM131"]
    assert "ops_kernel.cu" in found["ops.py", "JM131"]
    assert "`load_inline` builds CUDA code" in found["inline.py", "JM131"]
    assert "torch.nn.TransformerEncoderLayer" in found["layer.py", "JM130"]
