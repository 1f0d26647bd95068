"""torch.cuda names, imports and mixed precision: before and after, and what stays."""

from __future__ import annotations

from textwrap import dedent

import pytest
from convert_cases import converted, findings, left

from jumar.base.findings import Severity
from jumar.convert.model.api_map import counterpart, table

TORCH = "import torch\n"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("torch.cuda.synchronize()", "torch.npu.synchronize()"),
        ("torch . cuda . synchronize ( )", "torch . npu . synchronize ( )"),
        ("torch.cuda.set_device(  # one\n    rank,  # two\n)", "torch.npu.set_device(  # one\n    rank,  # two\n)"),
        ("(torch\n .cuda  # why\n .synchronize())", "(torch\n .npu  # why\n .synchronize())"),
        ("x = torch.cuda.current_stream().query()", "x = torch.npu.current_stream().query()"),
        ("with torch.cuda.stream(torch.cuda.Stream()): pass", "with torch.npu.stream(torch.npu.Stream()): pass"),
        ("f(torch.cuda.is_available)", "f(torch.npu.is_available)"),
        ("getattr(torch.cuda, name)()", "getattr(torch.npu, name)()"),
        ("c = torch.cuda\nc.synchronize()", "c = torch.npu\nc.synchronize()"),
        ("try: f()\nexcept torch.cuda.OutOfMemoryError: pass", "try: f()\nexcept torch.OutOfMemoryError: pass"),
        ("g = torch.cuda.CUDAGraph()", "g = torch.npu.NPUGraph()"),
        ("with torch.cuda.graph(cuda_graph=g): pass", "with torch.npu.graph(npu_graph=g): pass"),
        ("torch.cuda.get_device_name(device=0)", "torch.npu.get_device_name(device_name=0)"),
        ("torch.cuda.get_device_name(0)", "torch.npu.get_device_name(0)"),
        ("isinstance(x, torch.cuda.FloatTensor)", "isinstance(x, torch.npu.FloatTensor)"),
        ("torch.cuda.memory.memory_allocated()", "torch.npu.memory.memory_allocated()"),
        ("print(f'{torch.cuda.device_count()} devices')", "print(f'{torch.npu.device_count()} devices')"),
        ("x = torch.cuda.default_generators[0]", "x = torch.npu.default_generators[0]"),
    ],
)
def test_a_name_of_torch_cuda_gets_its_counterpart(before: str, after: str) -> None:
    assert converted(TORCH + before + "\n") == TORCH + after + "\n"


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("torch.cuda.cudart()", "remove the call"),
        ("torch.cuda.nvtx.range_push('x')", "torch.npu.mstx"),
        ("torch.cuda.nccl.version()", "hccl"),
        ("torch.cuda.get_arch_list()", "get_device_name"),
        ("torch.cuda.comm.broadcast(x)", "torch.distributed"),
        ("torch.cuda.brand_new()", "no such name"),
        ("torch.cuda.memory.brand_new()", "has no brand_new"),
    ],
)
def test_a_name_without_a_counterpart_stays_and_is_an_error(name: str, hint: str) -> None:
    source = TORCH + name + "\n"
    assert converted(source) == source
    (finding,) = findings(source, "JM101")
    assert finding.severity is Severity.ERROR
    assert hint in finding.action


def test_nvtx_ranges_become_mstx_ranges_when_unsafe_edits_are_asked_for() -> None:
    assert (
        converted(TORCH + "torch.cuda.nvtx.range_push('x')\n", unsafe=True)
        == TORCH + "torch.npu.mstx.range_push('x')\n"
    )


@pytest.mark.parametrize(
    "source",
    [
        "import torch\ndef f(torch): return torch.cuda.synchronize()\n",
        "from mine import cuda\ncuda.synchronize()\n",
        "class Device:\n    CUDA = 1\nx = Device.CUDA\n",
        "import pycuda_tools as torch_cuda\ntorch_cuda.cuda.go\n",
        "x = 'torch.cuda.synchronize()'\n",
        "# torch.cuda.synchronize()\n",
        "import torch\ntorch.cuda.synchronize = lambda: None\n",
        "import torch\nif x:\n    torch = make()\ntorch.cuda.synchronize()\n",
    ],
)
def test_what_is_not_torch_cuda_or_is_not_certain_stays(source: str) -> None:
    assert converted(source) == source


def test_a_capability_check_behind_a_cuda_only_test_stays_whole() -> None:
    source = TORCH + "ok = torch.cuda.is_available() and torch.cuda.get_device_capability()[0] >= 8\n"
    assert converted(source) == source


def test_a_changed_result_is_a_warning_though_the_name_is_converted() -> None:
    (finding,) = findings(TORCH + "cap = torch.cuda.get_device_capability()\n", "JM101")
    assert (finding.severity, finding.evidence["applied"]) == (Severity.WARNING, True)
    assert "None" in finding.action


def test_every_name_of_the_table_is_converted_to_a_name_that_exists_or_reported() -> None:
    names = {row["npu"] for row in table()["names"]} | set(table()["npu_only"])
    for row in table()["names"]:
        other = counterpart(f"torch.cuda.{row['cuda']}")
        if other.kind in ("same", "renamed"):
            assert other.name is not None
            assert other.name.removeprefix("torch.npu.") in names | {"default_generators"}
        elif other.kind == "missing":
            assert other.hint, row


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("from torch import cuda\ncuda.synchronize()", "from torch import npu as cuda\ncuda.synchronize()"),
        ("from torch import cuda as c, nn\nc.x", "from torch import npu as c, nn\nc.x"),
        ("import torch.cuda as cuda\ncuda.empty_cache()", "import torch.npu as cuda\ncuda.empty_cache()"),
        ("import torch.cuda\ntorch.cuda.empty_cache()", "import torch.npu\ntorch.npu.empty_cache()"),
        ("import torch.cuda.amp\nwith torch.cuda.amp.autocast(): pass",
         "import torch.amp\nwith torch.amp.autocast('npu'): pass"),
        ("from torch.cuda import Event, Stream", "from torch.npu import Event, Stream"),
        ("from torch.cuda import CUDAGraph", "from torch.npu import NPUGraph as CUDAGraph"),
        ("from torch.cuda import Event, nvtx  # why",
         "from torch.npu import Event\nfrom torch.cuda import nvtx  # why"),
        ("def f():\n\tfrom torch.cuda import Event, OutOfMemoryError\n",
         "def f():\n\tfrom torch.npu import Event\n\tfrom torch import OutOfMemoryError\n"),
        ("if x: from torch.cuda import Event, nvtx", "if x: from torch.npu import Event; from torch.cuda import nvtx"),
        ("from torch.cuda import (  # why\n    Event,\n)", "from torch.npu import (  # why\n    Event,\n)"),
        ("from torch.cuda.memory import memory_allocated", "from torch_npu.npu.memory import memory_allocated"),
    ],
)  # fmt: skip
def test_imports_keep_the_names_they_bind(before: str, after: str) -> None:
    assert converted(before + "\n").replace("import torch_npu  # noqa: F401\n", "") == after + "\n"


@pytest.mark.parametrize(
    "source",
    ["import torch.cuda.nccl as nccl\n", "from torch.cuda import nvtx\n", "from torch.cuda import *\n",
     "from .torch import cuda\n", "from torch.cuda import (Event,  # a\n  nvtx)\n"],
)  # fmt: skip
def test_imports_without_a_counterpart_stay(source: str) -> None:
    assert converted(source) == source


AMP = "import torch\nfrom torch.cuda.amp import autocast, GradScaler, custom_fwd, custom_bwd\n"
NEUTRAL = "import torch\nfrom torch.amp import autocast, GradScaler, custom_fwd, custom_bwd\n"
ALL_USED = "\nGradScaler()\n@custom_fwd\n@custom_bwd\ndef f(): ...\n"
ALL_CONVERTED = "\nGradScaler('npu')\n@custom_fwd(device_type='npu')\n@custom_bwd(device_type='npu')\ndef f(): ...\n"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("autocast()", "autocast('npu')"),
        ("autocast( )", "autocast( 'npu')"),
        ("autocast(enabled=a)", "autocast('npu', enabled=a)"),
        ("autocast(a)", "autocast('npu', enabled=a)"),
        ("autocast(a(), dtype(), b)", "autocast('npu', enabled=a(), dtype=dtype(), cache_enabled=b)"),
        ("autocast((a),)", "autocast('npu', enabled=(a),)"),
        ("autocast(**k)", "autocast('npu', **k)"),
        ("autocast(\n    # why\n    a,\n)", "autocast(\n    # why\n    'npu', enabled=a,\n)"),
    ],
)
def test_autocast_gets_its_device_and_keywords(before: str, after: str) -> None:
    assert converted(AMP + before + ALL_USED) == NEUTRAL + after + ALL_CONVERTED


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("torch.cuda.amp.GradScaler(init_scale=2.0)", "torch.amp.GradScaler('npu', init_scale=2.0)"),
        ("torch.cuda.amp.GradScaler(2.0, *rest)", "torch.amp.GradScaler('npu', 2.0, *rest)"),
        ("torch.cuda.amp.autocast(*a)", "torch.npu.amp.autocast(*a)"),
        ("make(torch.cuda.amp.autocast)", "make(torch.npu.amp.autocast)"),
        ("x: torch.cuda.amp.GradScaler = y", "x: torch.amp.GradScaler = y"),
        ("@torch.cuda.amp.custom_fwd(cast_inputs=a)\ndef f(): ...",
         "@torch.amp.custom_fwd(cast_inputs=a, device_type='npu')\ndef f(): ..."),
        ("torch.cuda.amp.autocast_mode.autocast()", "torch.amp.autocast_mode.autocast('npu')"),
        ("torch.amp.GradScaler(enabled=a)", "torch.amp.GradScaler('npu', enabled=a)"),
        ("torch.amp.GradScaler(d)", "torch.amp.GradScaler(d)"),
        ("torch.amp.GradScaler(device=d)", "torch.amp.GradScaler(device=d)"),
        ("torch.autocast('cuda', dtype=d)", "torch.autocast('npu', dtype=d)"),
        ("torch.autocast(device_type=\"cuda\")", "torch.autocast(device_type=\"npu\")"),
    ],
)  # fmt: skip
def test_mixed_precision_names_the_npu(before: str, after: str) -> None:
    assert converted(TORCH + before + "\n") == TORCH + after + "\n"


def test_the_device_is_quoted_as_the_file_quotes() -> None:
    assert converted(TORCH + 'a = "x"\ntorch.cuda.amp.autocast()\n') == TORCH + 'a = "x"\ntorch.amp.autocast("npu")\n'


@pytest.mark.parametrize(
    "uses",
    ["make(autocast)\nautocast(True)\n", "class Mine(autocast): ...\n", "autocast(*a)\n", "", "ac = autocast\nac()\n"],
)
def test_an_import_used_as_a_value_keeps_its_signature(uses: str) -> None:
    before = "import torch\nfrom torch.cuda.amp import autocast\n" + uses
    assert converted(before) == "import torch\nfrom torch_npu.npu.amp import autocast\n" + uses


def test_rival_imports_of_one_name_keep_their_signature() -> None:
    before = """
        try:
            from torch.cuda.amp import autocast
        except ImportError:
            from mine import autocast
        autocast(True)
    """
    assert converted(before) == dedent(before).replace("torch.cuda.amp", "torch_npu.npu.amp")


def test_an_alias_of_the_module_follows_its_import() -> None:
    before = "from torch.cuda import amp\nwith amp.autocast(): amp.GradScaler()\n"
    assert converted(before) == "from torch import amp\nwith amp.autocast('npu'): amp.GradScaler('npu')\n"


def test_uncertain_names_are_reported() -> None:
    (finding,) = left("from torch import cuda\nif x:\n    cuda = make()\ncuda.synchronize()\n", "JM101")
    assert finding.confidence == "possible"
