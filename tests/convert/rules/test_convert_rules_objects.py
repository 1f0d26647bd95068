"""Methods and properties of tensors, checkpoints, libraries, and what is left over."""

from __future__ import annotations

from textwrap import dedent

import pytest
from convert_cases import IMPORT, converted, findings, left, outcome

from jumar.base.findings import Severity

TORCH = "import torch\n"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("model.cuda()", "model.npu()"),
        ("x = x.cuda(gpu, non_blocking=True)", "x = x.npu(gpu, non_blocking=True)"),
        ("x = x.cuda(next(it))", "x = x.npu(next(it))"),
        ("(net(a)\n  .cuda()  # b\n)", "(net(a)\n  .npu()  # b\n)"),
        ("nn.CrossEntropyLoss().cuda().eval()", "nn.CrossEntropyLoss().npu().eval()"),
        ("ys = [y.cuda() for y in ys]", "ys = [y.npu() for y in ys]"),
        ("class Net(nn.Module):\n    def go(self): self.cuda()", "class Net(nn.Module):\n    def go(self): self.npu()"),
        ("import torch\nxs = map(torch.Tensor.cuda, xs)", "import torch\nxs = map(torch.Tensor.npu, xs)"),
        ("from shared import net\nnet.cuda()", "from shared import net\nnet.npu()"),
        ("torch.load(p, map_location=lambda s, l: s.cuda(0))", "torch.load(p, map_location=lambda s, l: s.npu(0))"),
    ],
)
def test_moving_to_cuda_becomes_moving_to_the_npu(before: str, after: str) -> None:
    assert converted(before + "\n") == after + "\n"


OWN = """
class Batch:
    def __init__(self, x): self.x = x
    def cuda(self):
        self.x = self.x.cuda()
        return self
"""


@pytest.mark.parametrize(
    "use",
    [
        "class Sub:\n    def cuda(self): ...\n    def f(self): self.cuda()",
        "b = Batch(1)\nb.cuda()",
        "Batch(1).cuda()",
        "def f(b: Batch): b.cuda()",
        "b = c = Batch(1)\nc.cuda()",
    ],
)
def test_a_files_own_cuda_method_and_its_known_callers_stay(use: str) -> None:
    assert converted(OWN + use + "\n").endswith(use + "\n")


def test_in_a_file_with_its_own_cuda_method_an_unknown_object_is_unsafe_and_a_known_tensor_is_not() -> None:
    source = OWN + "import torch\nt = torch.zeros(1)\nt.cuda()\nunknown.cuda()\n"
    assert converted(source).endswith("t.npu()\nunknown.cuda()\n")
    assert converted(source, unsafe=True).endswith("t.npu()\nunknown.npu()\n")


def test_super_in_an_own_cuda_method_means_pytorchs() -> None:
    source = "class Net(nn.Module):\n    def cuda(self, d=None):\n        return super().cuda(d)\n"
    assert converted(source) == source.replace("super().cuda", "super().npu")


@pytest.mark.parametrize(
    "source", ["import ext\next.cuda()\n", "args.cuda\n", "def cuda(): ...\ncuda()\n", "f(cuda=1)\n"]
)
def test_functions_and_flags_called_cuda_stay(source: str) -> None:
    assert converted(source) == source


@pytest.mark.parametrize(
    ("before", "after"), [("x = t.is_cuda\n", "x = t.is_npu\n"), ("print(t.is_cuda)\n", "print(t.is_npu)\n")]
)
def test_is_cuda_becomes_is_npu(before: str, after: str) -> None:
    assert converted(before) == after


def test_an_own_is_cuda_attribute_stays() -> None:
    source = """
        class A:
            def __init__(self): self.is_cuda = check()
            def f(self): return g(self.is_cuda)
    """
    assert converted(source) == dedent(source)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("torch.load(p)", "torch.load(p, map_location='cpu')"),
        ("torch.load(p, weights_only=True,)", "torch.load(p, weights_only=True, map_location='cpu',)"),
        ("torch.load((p))", "torch.load((p), map_location='cpu')"),
        ("torch.load(f=p)", "torch.load(f=p, map_location='cpu')"),
    ],
)
def test_load_gets_a_map_location_when_unsafe_edits_are_asked_for(before: str, after: str) -> None:
    assert converted(TORCH + before + "\n") == TORCH + before + "\n"
    assert converted(TORCH + before + "\n", unsafe=True) == TORCH + after + "\n"


@pytest.mark.parametrize(
    "call", ["torch.load(p, 'cpu')", "torch.load(p, map_location=d)", "torch.load(p, **k)", "json.load(p)"]
)
def test_a_load_that_says_where_is_not_reported(call: str) -> None:
    assert findings(f"import json\n{TORCH}{call}\n", "JM112") == []


def test_flags_of_cudnn_are_reported_and_stay() -> None:
    source = """
        import torch
        import torch.backends.cudnn as cudnn
        cudnn.benchmark = True
        torch.backends.cudnn.deterministic = True
    """
    assert converted(source) == dedent(source)
    assert [finding.severity for finding in left(source, "JM110")] == [Severity.INFO, Severity.ADVICE]


@pytest.mark.parametrize(
    ("source", "word"),
    [
        ("from flash_attn import flash_attn_func", "scaled_dot_product_attention"),
        ("from apex import amp", "NpuFused"),
        ("import bitsandbytes as bnb", "NpuFusedAdamW"),
        ("from nvidia.dali import pipeline_def", "DataLoader"),
        ("import pynvml", "npu-smi"),
    ],
)
def test_libraries_with_cuda_code_are_reported_with_their_counterpart(source: str, word: str) -> None:
    found = left(source + "\n", "JM111")
    assert any(word in finding.action for finding in found)
    assert converted(source + "\n") == source + "\n"


def test_a_library_in_a_try_matters_less() -> None:
    (hard,) = left("import apex\n", "JM111")
    (soft,) = left("try:\n    import apex\nexcept ImportError:\n    apex = None\n", "JM111")
    assert (hard.severity, soft.severity) == (Severity.WARNING, Severity.ADVICE)


def test_data_parallel_is_reported() -> None:
    assert (
        len(left("import torch.nn as nn\nnn.DataParallel(m)\nnn.parallel.DistributedDataParallel(m)\n", "JM113")) == 1
    )


@pytest.mark.parametrize(
    ("source", "word"),
    [
        ("run(['nvidia-smi'])", "npu-smi"),
    ],
)
def test_what_will_fail_though_no_rule_converts_it_is_a_warning(source: str, word: str) -> None:
    (finding,) = [f for f in left(source + "\n", "JM114") if f.severity is Severity.WARNING]
    assert word in finding.action


def test_messages_and_own_names_are_summed_up_in_one_note_each() -> None:
    source = "use_cuda = 1\nprint('cuda', use_cuda)\nraise RuntimeError('needs cuda', args.no_cuda)\n"
    notes = [finding for finding in outcome(source).findings if finding.code == "JM114"]
    assert [note.evidence for note in notes] == [
        {"names": {"use_cuda": 2, "no_cuda": 1}},
        {"num_uses": 1, "lines": [3]},
    ]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("import torch\nx.cuda()\n", f"import torch\n{IMPORT}x.npu()\n"),
        ('"""Doc."""\nfrom __future__ import division\nimport os\nimport torch.nn\nimport torch\nx.cuda()\n',
         f'"""Doc."""\nfrom __future__ import division\nimport os\nimport torch.nn\n{IMPORT}import torch\nx.npu()\n'),
        ("from torch import cuda\ncuda.x\n", f"{IMPORT}from torch import npu as cuda\ncuda.x\n"),
        ("from torch.cuda.amp import autocast\nautocast()\n",
         f"from torch.amp import autocast\n{IMPORT}autocast('npu')\n"),
        ("import torch, os; x.cuda()", f"{IMPORT}import torch, os; x.npu()"),
        ("x.cuda()\nimport torch  # t", f"x.npu()\nimport torch  # t\n{IMPORT}".rstrip("\n")),
        ("import torch\nimport torch_npu\nx.cuda()\n", "import torch\nimport torch_npu\nx.npu()\n"),
        ("import torch_npu.contrib\nimport torch\nx.cuda()\n", "import torch_npu.contrib\nimport torch\nx.npu()\n"),
        ("import torch\n\ntry:\n    f('nccl')\nexcept torch.cuda.OutOfMemoryError: pass\n",
         f"import torch\n{IMPORT}\ntry:\n    f('hccl')\nexcept torch.OutOfMemoryError: pass\n"),
        ("device = 'cuda'\n", "device = 'npu'\n"),
        ("import torch\ntry: f()\nexcept torch.cuda.OutOfMemoryError: pass\n",
         "import torch\ntry: f()\nexcept torch.OutOfMemoryError: pass\n"),
    ],
)  # fmt: skip
def test_torch_npu_is_imported_once_at_module_level_where_it_is_needed(before: str, after: str) -> None:
    assert outcome(before).after.decode() == after


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            "try:\n    import torch\nexcept ImportError:\n    torch = None\nx.cuda()\n",
            f"try:\n    import torch\n    {IMPORT}except ImportError:\n    torch = None\nx.npu()\n",
        ),
        ("def f():\n    import torch\n    x.cuda()\n", f"def f():\n    import torch\n    {IMPORT}    x.npu()\n"),
        (
            "def f():\n\timport torch\n\tx.cuda()\ndef g():\n\timport torch\n",
            f"def f():\n\timport torch\n\t{IMPORT}\tx.npu()\ndef g():\n\timport torch\n",
        ),
    ],
)
def test_torch_npu_goes_where_torch_is_imported_conditionally(before: str, after: str) -> None:
    assert outcome(before).after.decode() == after


@pytest.mark.parametrize(
    "source",
    ["def f(): import torch; x.cuda()\n", "if TYPE_CHECKING:\n    import torch\nx.cuda()\n"],
)
def test_where_no_import_would_take_effect_none_is_added_and_the_place_is_reported(source: str) -> None:
    assert IMPORT not in outcome(source).after.decode()
    assert len(left(source, "JM107")) == 1
