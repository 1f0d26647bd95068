"""What is left of CUDA, one rule a kind of reason: what is reported, with what weight, and what is not."""

from __future__ import annotations

from textwrap import dedent

import pytest
from convert_cases import converted, findings

from jumar.base.findings import Severity

TORCH = "import torch\n"


def codes_and_severities(source: str, code: str) -> list[Severity]:
    return [finding.severity for finding in findings(source, code)]


# ---- JM110 cudnn-flag


@pytest.mark.parametrize(
    ("flag", "severity", "word"),
    [
        ("torch.backends.cudnn.benchmark = True", Severity.INFO, "AOE"),
        ("torch.backends.cudnn.deterministic = True", Severity.ADVICE, "use_deterministic_algorithms"),
        ("torch.backends.cudnn.allow_tf32 = True", Severity.INFO, "torch.npu.conv.allow_hf32"),
        ("torch.backends.cuda.matmul.allow_tf32 = True", Severity.INFO, "torch.npu.matmul.allow_hf32"),
        ("torch.backends.cuda.enable_flash_sdp(False)", Severity.INFO, "sdpa_kernel"),
        ("torch.backends.cuda.cufft_plan_cache.clear()", Severity.INFO, "fft_plan_cache"),
        ("if torch.backends.cudnn.version() > 8000: pass", Severity.ADVICE, "None"),
    ],
)
def test_a_switch_of_cudnn_says_what_it_means_on_an_npu(flag: str, severity: Severity, word: str) -> None:
    (found,) = findings(f"{TORCH}{flag}\n", "JM110")
    assert found.severity == severity
    assert word in found.action


# ---- JM112 load-without-map-location


@pytest.mark.parametrize(
    ("call", "after"),
    [
        ("torch.jit.load(p)", "torch.jit.load(p, map_location='cpu')"),
        ("torch.load(p, None)", None),
        ("torch.load(p, map_location=None)", "torch.load(p, map_location='cpu')"),
        ("torch.hub.load_state_dict_from_url(u)", "torch.hub.load_state_dict_from_url(u, map_location='cpu')"),
        ("torch.hub.load_state_dict_from_url(u, d, 'cpu')", None),
    ],
)
def test_what_opens_checkpoints_gets_a_map_location(call: str, after: str | None) -> None:
    source = f"{TORCH}x = {call}\n"
    assert converted(source, unsafe=True) == (f"{TORCH}x = {after}\n" if after else source)


def test_lightnings_checkpoints_are_reported() -> None:
    assert codes_and_severities("m = Net.load_from_checkpoint(p)\n", "JM112") == [Severity.ADVICE]
    assert findings("m = Net.load_from_checkpoint(p, map_location='cpu')\nload(1)\n", "JM112") == []


# ---- JM131 cuda-extension


@pytest.mark.parametrize(
    ("source", "severity"),
    [
        (
            "from torch.utils.cpp_extension import CUDAExtension\nCUDAExtension('a', ['a.cpp', 'a.cu'])",
            Severity.WARNING,
        ),
        ("from torch.utils import cpp_extension\ncpp_extension.load('a', ['a.cpp', 'a_kernel.cu'])", Severity.WARNING),
        ("from torch.utils.cpp_extension import load_inline\nload_inline('a', '', cuda_sources=src)", Severity.WARNING),
        ("from torch.utils.cpp_extension import load\nload('a', sources)", Severity.ADVICE),
        ("from torch.utils.cpp_extension import CppExtension\nCppExtension('a', ['a.cpp'])", Severity.INFO),
        ("from torch.utils.cpp_extension import CUDA_HOME\nif CUDA_HOME is None: pass", Severity.ADVICE),
        ("import torch\ntorch.ops.load_library('build/libops.so')", Severity.WARNING),
        ("sources = ['bias_act.cpp', 'bias_act.cu']", Severity.ADVICE),
        ("from . import iou3d_nms_cuda\niou3d_nms_cuda.nms(b)", Severity.WARNING),
        ("try:\n    import fused_cuda\nexcept ImportError:\n    fused_cuda = None", Severity.ADVICE),
    ],
)
def test_what_builds_or_loads_cuda_code_is_reported(source: str, severity: Severity) -> None:
    assert codes_and_severities(source + "\n", "JM131") == [severity]


@pytest.mark.parametrize(
    "source",
    [
        "from .utils import is_cuda_available\nis_cuda_available()",
        "from .devices import to_cuda\nto_cuda(x)",
        "from build import CUDA_HOME",
        "from torch.utils.cpp_extension import BuildExtension\nBuildExtension",
        "note = 'see main.cu for the kernel'",
    ],
)
def test_names_that_only_sound_like_extensions_are_not_reported(source: str) -> None:
    assert findings(source + "\n", "JM131") == []


def test_a_build_tells_which_cuda_sources_it_names() -> None:
    source = "from torch.utils.cpp_extension import CUDAExtension\nCUDAExtension('a', ['a.cpp', 'b/a.cu'])\n"
    (found,) = findings(source, "JM131")
    assert found.evidence["sources"] == ["b/a.cu"]


# ---- JM132 triton-kernel


def test_each_triton_kernel_is_listed_with_its_launches() -> None:
    source = """
        import triton
        import triton.language as tl

        @triton.jit
        def helper(x):
            return x

        @triton.autotune(configs=[], key=[])
        @triton.jit
        def kernel(x_ptr, n: tl.constexpr):
            helper(x_ptr)

        @triton.jit
        def unused(x_ptr): ...

        def run(x):
            kernel[(1,)](x, 8)
    """
    found = findings(source, "JM132")
    assert [(f.evidence["kernel"], f.evidence["launches"]) for f in found] == [
        ("helper", []),
        ("kernel", [18]),
        ("unused", []),
    ]
    assert [f.severity for f in found] == [Severity.ADVICE, Severity.WARNING, Severity.WARNING]


# ---- JM133 library-switch


@pytest.mark.parametrize(
    ("source", "severity"),
    [
        ("load(attn_implementation='flash_attention_2')", Severity.WARNING),
        ("kwargs['load_in_8bit'] = True", Severity.WARNING),
        ("load(load_in_4bit=args.bits == 4)", Severity.ADVICE),
        ("args = TrainingArguments(optim='paged_adamw_32bit')", Severity.WARNING),
        ("args = {'optim': 'adamw_bnb_8bit'}", Severity.WARNING),
        ("parser.add_argument('--optim', default='adamw_apex_fused')", Severity.WARNING),
        ("TrainingArguments(tf32=True)", Severity.WARNING),
        ("import torch\ntorch.optim.Adam(p, fused=True)", Severity.WARNING),
        ("import torch\ntorch.optim.AdamW(p, fused=True)", Severity.INFO),
        ("unet.enable_xformers_memory_efficient_attention()", Severity.WARNING),
        ("from transformers import BitsAndBytesConfig\nBitsAndBytesConfig(load_in_4bit=True)", Severity.WARNING),
    ],
)
def test_an_option_that_chooses_a_cuda_library_is_reported_once(source: str, severity: Severity) -> None:
    assert codes_and_severities(source + "\nload(1)\n", "JM133") == [severity]


@pytest.mark.parametrize(
    "source",
    ["load(load_in_8bit=False)", "load(load_in_8bit=load_in_8bit)", "if impl == 'flash_attention_2': pass",
     "import importlib\nimportlib.import_module('xformers')", "kernel(fused=True)"],
)  # fmt: skip
def test_options_that_are_off_passed_on_or_compared_are_not_reported(source: str) -> None:
    assert findings(source + "\nload(1)\n", "JM133") == []


# ---- JM134 framework-device

LIGHTNING = "import pytorch_lightning as pl\n"


@pytest.mark.parametrize(
    "source",
    [
        f"{LIGHTNING}pl.Trainer(gpus=args.gpus)",
        f"{LIGHTNING}pl.Trainer(strategy='deepspeed_stage_2')",
        "Fabric(accelerator='cuda')",
        "import ray\n@ray.remote(num_gpus=1)\nclass A: ...",
        "TrainingArguments(no_cuda=args.cpu)",
    ],
)
def test_a_framework_told_to_use_gpus_is_reported(source: str) -> None:
    assert len(findings(source + "\n'cuda'\n", "JM134")) == 1


@pytest.mark.parametrize(
    "source",
    [f"{LIGHTNING}pl.Trainer(accelerator='cpu', devices=1)", f"{LIGHTNING}pl.Trainer(gpus=0)",
     "Trainer(gpus=2)", "import ray\nray.init(num_gpus=0)", "f(num_gpus=8)"],
)  # fmt: skip
def test_other_devices_and_other_functions_with_such_names_are_not(source: str) -> None:
    assert findings(source + "\n'cuda'\n", "JM134") == []


# ---- JM135 compute-capability


@pytest.mark.parametrize(
    ("source", "severity"),
    [
        ("ok = torch.cuda.get_device_capability()[0] >= 8", Severity.ERROR),
        ("ok = torch.cuda.get_device_capability() >= (8, 0)", Severity.ERROR),
        ("major, minor = torch.cuda.get_device_capability()", Severity.WARNING),
        ("n = torch.cuda.get_device_properties(0).multi_processor_count", Severity.ERROR),
        ("p = torch.cuda.get_device_properties(0)\nok = p.major >= 8", Severity.ERROR),
        ("v = torch.version.cuda", Severity.ADVICE),
        ("v = torch.version.cuda.split('.')", Severity.WARNING),
        ("flags = ['arch=compute_70,code=sm_70']", Severity.ADVICE),
    ],
)
def test_decisions_by_the_make_of_a_gpu_are_reported(source: str, severity: Severity) -> None:
    assert codes_and_severities(f"{TORCH}{source}\nx = 'cuda'\n", "JM135") == [severity]


@pytest.mark.parametrize(
    "source",
    ["m = torch.cuda.get_device_properties(0).total_memory", "v = version.major", "name = 'sm_model'"],
)
def test_what_npu_properties_have_is_not(source: str) -> None:
    assert findings(f"{TORCH}{source}\nx = 'cuda'\n", "JM135") == []


# ---- JM136 graph-compiler


def test_scripts_and_traces_are_summed_up_and_compiles_judged_by_what_they_ask_for() -> None:
    source = """
        import torch

        @torch.jit.script
        def f(x): return x

        @torch.jit.script
        def g(x): return x

        torch.jit.trace(f, 1)
        torch.compile(f)
        torch.compile(f, backend='eager')
        torch.compile(f, mode='reduce-overhead')
        torch.compile(f, mode='max-autotune', options={'triton.cudagraphs': True})
        torch.compile(f, backend='cudagraphs')
        torch._C._jit_set_nvfuser_enabled(True)
        torch._C._jit_get_operation('aten::mul')
    """
    found = [(f.where.line, f.severity, f.evidence.get("lines")) for f in findings(source, "JM136")]
    assert found == [
        (4, Severity.ADVICE, [4, 7]),
        (10, Severity.ADVICE, [10]),
        (11, Severity.ADVICE, [11, 13]),
        (14, Severity.WARNING, None),
        (14, Severity.WARNING, None),
        (15, Severity.WARNING, None),
        (16, Severity.ADVICE, [16]),
    ]


# ---- JM137 memory-format, JM138 limited-dtype


def test_channels_last_is_one_finding_a_file() -> None:
    source = (
        f"{TORCH}x.to(memory_format=torch.channels_last)\ny = torch.channels_last_3d\nz = torch.contiguous_format\n"
    )
    (found,) = findings(source, "JM137")
    assert found.evidence["lines"] == [2, 3]


@pytest.mark.parametrize(
    ("source", "dtype"),
    [
        ("x = torch.zeros(3, dtype=torch.float64, device='cuda')", "float64"),
        ("x = y.double()", "float64"),
        ("x = torch.zeros(3, dtype='float64')", "float64"),
        ("x = torch.complex128", "complex128"),
        ("x = y.to(torch.float8_e4m3fn)", "float8_e4m3fn"),
    ],
)
def test_dtypes_that_operators_refuse_are_reported_with_how_many(source: str, dtype: str) -> None:
    (found,) = findings(f"{TORCH}{source}\n", "JM138")
    assert found.evidence["dtype"] == dtype
    refusing, checked = found.evidence["num_refusing"], found.evidence["num_checked"]
    assert isinstance(refusing, int)
    assert isinstance(checked, int)
    assert 0 < refusing <= checked
    assert str(refusing) in found.why


def test_a_default_of_float64_is_a_warning() -> None:
    assert Severity.WARNING in codes_and_severities(f"{TORCH}torch.set_default_dtype(torch.float64)\n", "JM138")


@pytest.mark.parametrize(
    "source",
    ["x = np.zeros(3, dtype='float64')", "if x.dtype == torch.float64: pass", "ok = d in (torch.half, torch.float64)",
     "x = torch.zeros(3, dtype=torch.float64, device='cpu')", "x = y.double().numpy()", "x = y.cpu().double()",
     "class C:\n    def double(self): ...\nC().double()", "x = torch.int64"],
)  # fmt: skip
def test_float64_of_the_host_and_other_doubles_are_not(source: str) -> None:
    assert findings(f"import numpy as np\n{TORCH}{source}\nz = 'cuda'\n", "JM138") == []


# ---- JM139 checkpoint-device


@pytest.mark.parametrize(
    ("value", "severity"),
    [
        ("{'cuda:0': f'cuda:{rank}'}", Severity.WARNING),
        ("{'cuda:%d' % 0: 'cuda:%d' % rank}", Severity.WARNING),
        ("lambda storage, loc: storage.cuda(0)", Severity.ADVICE),
    ],
)
def test_a_map_from_or_to_cuda_is_reported(value: str, severity: Severity) -> None:
    assert codes_and_severities(f"{TORCH}torch.load(p, map_location={value})\n", "JM139") == [severity]
    assert codes_and_severities(f"{TORCH}m = {value}\ntorch.load(p, map_location=m)\n", "JM139") == [severity]


@pytest.mark.parametrize("value", ["'cpu'", "device", "lambda storage, loc: storage", "{'cpu': 'cpu'}"])
def test_a_map_to_the_host_is_not(value: str) -> None:
    assert findings(f"{TORCH}torch.load(p, map_location={value})\n", "JM139") == []


# ---- JM140 to JM144


@pytest.mark.parametrize(
    ("source", "code", "severity"),
    [
        ("torch.cuda.set_rng_state(s)", "JM140", Severity.ADVICE),
        ("torch.cuda.manual_seed_all(0)", "JM140", Severity.INFO),
        ("g = torch.cuda.CUDAGraph()", "JM140", Severity.ADVICE),
        ("torch.cuda.set_per_process_memory_fraction(0.5)", "JM140", Severity.INFO),
        ("s = torch.cuda.Stream(priority=-1)", "JM140", Severity.ADVICE),
        ("kernel(stream.cuda_stream)", "JM140", Severity.WARNING),
        ("n = torch.cuda.device_count()\nb = batch // n", "JM141", Severity.INFO),
        ("args.gpu = args.rank % torch.cuda.device_count()", "JM141", Severity.INFO),
        ("o = torch._C._distributed_c10d.ProcessGroupNCCL.Options()", "JM142", Severity.WARNING),
        ("op = torch.distributed.ReduceOp.BXOR", "JM142", Severity.WARNING),
        ("torch.distributed.new_group(r, pg_options=o)", "JM142", Severity.ADVICE),
        ("loader = torch.utils.data.DataLoader(d, pin_memory=True)", "JM143", Severity.INFO),
        ("x = x.pin_memory()", "JM143", Severity.INFO),
        ("torch.utils.checkpoint.checkpoint(f, x, preserve_rng_state=True)", "JM143", Severity.INFO),
        ("torch._C._cuda_clearCublasWorkspaces()", "JM144", Severity.WARNING),
        ("import ctypes\nl = ctypes.CDLL('libcudart.so')", "JM144", Severity.WARNING),
        ("lib.impl('scale', f, 'CUDA')", "JM144", Severity.WARNING),
        ("import torch.library\ntorch.library.impl('a::b', 'CUDA', f)", "JM144", Severity.WARNING),
        ("ok = hasattr(torch._C, '_cuda_getDevice')", "JM144", Severity.ADVICE),
        ("f = getattr(torch.cuda, name)", "JM144", Severity.ADVICE),
        ("op = get('aten::cudnn_convolution')", "JM144", Severity.WARNING),
        ("y = torch.cudnn_convolution(x)", "JM144", Severity.WARNING),
    ],
)
def test_other_kinds_of_residue(source: str, code: str, severity: Severity) -> None:
    assert codes_and_severities(f"{TORCH}{source}\nz = 'cuda'\n", code) == [severity]


@pytest.mark.parametrize(
    ("source", "code"),
    [
        ("torch.manual_seed(0)", "JM140"),
        ("s = torch.cuda.Stream()", "JM140"),
        ("n = torch.cuda.device_count()\nprint(n)", "JM141"),
        ("op = torch.distributed.ReduceOp.SUM", "JM142"),
        ("torch.distributed.new_group(r, pg_options=None)", "JM142"),
        ("loader = torch.utils.data.DataLoader(d, pin_memory=False)", "JM143"),
        ("lib.impl('scale', f, 'CPU')", "JM144"),
        ("d = getattr(torch, 'bfloat16')", "JM144"),
        ("d = getattr(torch, name)", "JM144"),
        ("import ctypes\nl = ctypes.CDLL('libm.so')", "JM144"),
    ],
)
def test_what_an_npu_does_alike_is_not_reported(source: str, code: str) -> None:
    assert findings(f"{TORCH}{source}\nz = 'cuda'\n", code) == []


def test_residue_changes_nothing() -> None:
    source = dedent("""
        import torch
        import triton
        from flash_attn import flash_attn_func
        x = torch.zeros(3, dtype=torch.float64)
        y = flash_attn_func(x, x, x)
        z = torch.compile(f, mode='max-autotune')
        torch.backends.cudnn.benchmark = True
    """)
    assert converted(source, unsafe=True) == source
