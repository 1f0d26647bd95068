"""Tests for an accelerator are converted; tests that pick a CUDA-only kernel are not."""

from __future__ import annotations

import pytest
from convert_cases import agnostic, converted, findings

from jumar.base.findings import Severity

TORCH = "import torch\n"


@pytest.mark.parametrize(
    "guard",
    [
        "if x.device.type == 'cuda': torch.manual_seed(1)",
        "if x.device.type != 'cuda': x = x.float()",
        "if device == 'cuda': x = x.pin_memory()",
        "if 'cuda' == device: x = x.pin_memory()",
        "if 'cuda' in args.device: x = x.pin_memory()",
        "if 'cuda' not in str(device): raise SystemExit",
        "if str(device).startswith('cuda'): x = x.pin_memory()",
        "if device.type in ('cuda', 'mps'): x = x.half()",
        "if torch.device(d).type == 'cuda': x = x.half()",
        "if cfg['device'] == 'cuda': x = x.half()",
        "use_amp = device_type == 'cuda'",
        "pin = {'pin_memory': True} if device_type == 'cuda' else {}",
        "loader = DataLoader(d, pin_memory=device.type == 'cuda')",
        "assert device.type == 'cuda', 'a GPU is needed'",
        "def f(device):\n    return device.type == 'cuda'",
        "ys = [y for y in ys if y.device.type == 'cuda']",
        "ok = not args.cpu and device.type == 'cuda'",
        "while device.type == 'cuda': step()",
    ],
)
def test_a_test_for_an_accelerator_is_converted(guard: str) -> None:
    assert converted(TORCH + guard + "\n") == TORCH + guard.replace("'cuda'", "'npu'") + "\n"


@pytest.mark.parametrize(
    "guard",
    [
        "device = torch.device('cuda' if torch.cuda.is_available() else 'cpu')",
        "use_cuda = torch.cuda.is_available() and not args.no_cuda",
        "if not torch.cuda.is_available(): raise SystemExit('no GPU')",
        "if torch.cuda.is_available():\n    model.cuda()\n    opt = AdamW(p, fused=True)",
        "if torch.cuda.is_available():\n    torch.backends.cudnn.benchmark = True",
        "@skipIf(not torch.cuda.is_available(), 'x')\ndef f(): ...",
        "if x.is_cuda: x = x.pin_memory()",
    ],
)
def test_a_question_for_the_machine_is_converted(guard: str) -> None:
    after = converted(TORCH + guard + "\n")
    assert "cuda.is_available" not in after
    assert ".is_cuda" not in after


@pytest.mark.parametrize(
    "guard",
    [
        "use_fused = fused_available and device_type == 'cuda'",
        "if impl == 'cuda' and x.device.type == 'cuda' and _init():\n    y = _bias_act_cuda(x)",
        "def _should_use_custom_op(x):\n    if x.device.type != 'cuda': return False\n    return True",
        "def f(x):\n    if x.is_cuda:\n        return _C.forward(x)\n    return slow(x)",
        "def f(q, k, v):\n    if q.is_cuda: return flash_attn_func(q, k, v)\n    return sdpa(q, k, v)",
        "def f(x):\n    if x.device.type == 'cuda':\n        return triton_softmax(x)\n    return x.softmax(-1)",
        "def f(x):\n    if not x.is_cuda:\n        return slow(x)\n    return roi_align_cuda(x)",
        "opt = AdamW(p, fused=device.type == 'cuda')",
        "opt = AdamW(p, fused=torch.cuda.is_available())",
        "kwargs = {'fused': device.type == 'cuda'}",
        "assert torch.cuda.is_available(), 'CUDA required for APEX optimizers'",
        "def unsloth_checker(x):\n    return x.device.type == 'cuda'",
        "if torch.cuda.is_available(): check_nvlink(x)",
        "attn = 'flash_attention_2' if torch.cuda.is_available() else 'sdpa'",
        "y = fused_gelu(x) if x.is_cuda else gelu(x)",
        "if torch.cuda.is_available():\n    from flash_attn import flash_attn_func",
        "HAS_TRITON = torch.cuda.is_available() and find('triton')",
    ],
)
def test_a_test_that_picks_a_cuda_only_kernel_stays_and_says_why(guard: str) -> None:
    source = TORCH + guard + "\n"
    assert converted(source) == source
    kept = [finding for finding in findings(source, "JM108") if not finding.evidence.get("applied")]
    assert kept
    assert all(finding.severity is Severity.ADVICE and finding.evidence["names"] for finding in kept)


@pytest.mark.parametrize(
    "source",
    [
        "if x.device.type == 'cuda':\n    torch.cuda.synchronize()\nelif x.device.type == 'npu':\n    sync()",
        "if is_npu_available():\n    d = 'npu'\nelif torch.cuda.is_available():\n    d = torch.device('cuda')",
        "d = 'cuda' if torch.cuda.is_available() else 'npu' if is_npu_available() else 'cpu'",
        "ok = x.is_cuda or x.is_npu",
        "if device in ('cuda', 'npu'): y = 1",
        "is_cuda = device.type == 'cuda'\nis_npu = device.type == 'npu'",
        "def is_cuda_available(): return torch.cuda.is_available()\ndef is_npu_available(): return find('npu')",
        "if is_npu_available():\n    d = 'npu'\nelse:\n    torch.cuda.set_device(0)\n    d = torch.device('cuda', 0)",
        "if not is_torch_npu_available():\n    torch.cuda.empty_cache()",
        "if a.is_xpu:\n    f()\nelif hasattr(torch, 'npu') and torch.npu.is_available():\n    g()\nelse:\n    x.cuda()",
        "def backend():\n    if is_npu_available():\n        return 'hccl'\n    return 'nccl'",
        "IS_NPU = found()\nd = 'npu' if IS_NPU else 'cuda'\nb = 'hccl' if IS_NPU else 'nccl'",
    ],
)
def test_cudas_side_of_code_for_both_stays_in_both_targets(source: str) -> None:
    assert converted(TORCH + source + "\n") == TORCH + source + "\n"
    assert agnostic(TORCH + source + "\n") == TORCH + source + "\n"
    assert any("beside" in finding.message for finding in findings(TORCH + source + "\n", "JM108"))


@pytest.mark.parametrize(
    "source",
    [
        "x = sorted(y, key=k, ascending=1) if torch.cuda.is_available() else y",
        "if device == 'cuda':\n    input = x\nelif device == 'mps':\n    input = y",
        "if is_input_available():\n    f()\nelse:\n    torch.cuda.synchronize()",
        "if not is_npu_available():\n    f()\nelse:\n    torch.cuda.synchronize()",
    ],
)
def test_words_that_only_contain_npu_are_no_side_for_it(source: str) -> None:
    assert "cuda" not in converted(TORCH + source + "\n")


def test_a_check_that_raises_is_about_the_machine_whatever_a_later_branch_needs() -> None:
    source = "def f(accelerator, q):\n    if accelerator not in ('cuda', 'gpu'):\n        raise ValueError\n"
    source += "    if q:\n        plugins = bitsandbytes_plugin(q)\n"
    assert converted(source) == source.replace("'cuda'", "'npu'")


def test_movers_whose_name_ends_in_cuda_are_no_kernels() -> None:
    source = TORCH + "if torch.cuda.is_available():\n    x = to_cuda(x)\n"
    assert converted(source) == source.replace("torch.cuda", "torch.npu")


@pytest.mark.parametrize("source", ["if impl == 'cuda': pass\n", "if lang == 'cuda': pass\n"])
def test_a_comparison_with_something_else_is_never_converted_silently(source: str) -> None:
    assert converted(source) == source
    (finding,) = findings(source, "JM108")
    assert not finding.evidence.get("applied")


def test_every_judgement_is_one_finding_and_not_two() -> None:
    found = findings(TORCH + "ok = torch.cuda.is_available()\n", "JM101")
    assert found == []
