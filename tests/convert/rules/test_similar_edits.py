"""What `-sim` writes, what it says, and what it leaves alone."""

from __future__ import annotations

from textwrap import dedent

import pytest
from similar_cases import of_code, replaced, similar

from jumar.base.findings import Severity
from jumar.convert import convert_source

FLASH = "import torch\nfrom flash_attn import flash_attn_func\n"


def test_without_the_option_nothing_is_replaced() -> None:
    source = f"{FLASH}flash_attn_func(q, k, v)\n"
    assert convert_source(source, "a.py").after == source.encode()


def test_each_replacement_names_its_caveat() -> None:
    source = """
        import torch
        from flash_attn import flash_attn_func
        from apex.optimizers import FusedAdam
        from apex.normalization import FusedLayerNorm
        flash_attn_func(q, k, v)
        FusedAdam(p)
        FusedLayerNorm(8)
        torch.backends.cudnn.deterministic = True
        torch.backends.cuda.matmul.allow_tf32 = True
    """
    made = [f for f in similar(source).findings if f.evidence.get("similar")]
    assert [f.code for f in made] == ["JM145", "JM146", "JM147", "JM148", "JM148"]
    assert all(f.evidence["applied"] and f.evidence["caveat"] and f.why for f in made)
    assert {f.severity for f in made} == {Severity.ADVICE}


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        ("flash_attn_func(q, k, v, window_size=(size, 0))", "window_size"),
        ("flash_attn_func(q, k, v, alibi_slopes=slopes)", "alibi_slopes"),
        ("flash_attn_func(q, k, v, return_attn_probs=True)", "return_attn_probs"),
        ("flash_attn_func(q, k, v, softcap=30.0)", "softcap"),
        ("flash_attn_func(*qkv)", "told apart"),
        ("flash_attn_func(q, k, v, **options)", "told apart"),
        ("flash_attn_func(f(q), k, v, causal=True)", "lengths"),
    ],
)
def test_a_call_without_an_equal_stays_and_says_why(call: str, reason: str) -> None:
    source = f"{FLASH}x = {call}\n"
    assert replaced(source) == source
    (found,) = of_code(source, "JM145")
    assert reason in found.message
    assert len(of_code(source, "JM130")) == 1


def test_an_optional_import_has_its_own_fallback_and_stays() -> None:
    source = dedent("""
        try:
            from flash_attn import flash_attn_func
        except ImportError:
            flash_attn_func = None
        if flash_attn_func is not None:
            out = flash_attn_func(q, k, v)
    """)
    assert replaced(source) == source


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("from apex.optimizers import FusedAdam, FusedLAMB", "from apex.optimizers import FusedLAMB"),
        ("from apex.optimizers import FusedLAMB, FusedAdam", "from apex.optimizers import FusedLAMB"),
        ("from apex.optimizers import FusedLAMB, FusedAdam, FusedNovoGrad",
         "from apex.optimizers import FusedLAMB, FusedNovoGrad"),
        ("from apex.optimizers import (\n    FusedAdam,  # one\n    FusedLAMB,\n)",
         "from apex.optimizers import (\n    FusedLAMB,\n)"),
        ("from apex.optimizers import FusedAdam  # fast", "  # fast"),
    ],
)  # fmt: skip
def test_an_import_goes_when_nothing_uses_it_and_others_stay(before: str, after: str) -> None:
    source = f"import torch\n{before}\nFusedAdam(p, weight_decay=0.1)\n"
    assert replaced(source) == f"import torch\n{after}\ntorch.optim.AdamW(p, weight_decay=0.1)\n"


@pytest.mark.parametrize(
    "rest",
    ["names = [FusedLAMB, FusedAdam]", "__all__ = ['FusedAdam']", "FusedAdam(q)  # jumar: ignore", "FusedAdam(*q)"],
)
def test_an_import_that_something_still_uses_stays(rest: str) -> None:
    source = f"import torch\nfrom apex.optimizers import FusedAdam\nFusedAdam(p)\n{rest}\n"
    after = replaced(source)
    assert "from apex.optimizers import FusedAdam\n" in after
    assert "torch.optim.AdamW(p, weight_decay=0.0)" in after


@pytest.mark.parametrize(
    ("imports", "name"),
    [
        ("import torch", "torch.optim.AdamW"),
        ("import torch as t", "t.optim.AdamW"),
        ("from torch import optim", "optim.AdamW"),
        ("import torch\nimport torch.optim as O", "O.AdamW"),
    ],
)
def test_the_new_name_is_written_as_the_file_imports_torch(imports: str, name: str) -> None:
    source = f"{imports}\nfrom apex.optimizers import FusedAdam as Adam\nopt = Adam(p, weight_decay=0.1)\n"
    assert replaced(source) == f"{imports}\nopt = {name}(p, weight_decay=0.1)\n"


def test_a_file_without_torch_gets_its_import() -> None:
    source = "from apex.optimizers import FusedAdam\nopt = FusedAdam(p, weight_decay=0.1)\n"
    after = replaced(source)
    assert "import torch\n" in after
    assert after.endswith("opt = torch.optim.AdamW(p, weight_decay=0.1)\n")
    compile(after, "a.py", "exec")


@pytest.mark.parametrize(
    "call",
    ["FusedAdam(p, bias_correction=False)", "FusedAdam(p, 0.1, True)", "FusedAdam(p, adam_w_mode=mode)",
     "FusedAdam(p, capturable=True)", "FusedAdam(p, **options)"],
)  # fmt: skip
def test_an_optimizer_with_an_option_that_matters_stays(call: str) -> None:
    source = f"import torch\nfrom apex.optimizers import FusedAdam\no = {call}\n"
    assert replaced(source) == source
    assert len(of_code(source, "JM146")) == 1


def test_an_8_bit_optimizer_says_that_results_differ() -> None:
    source = "import torch\nimport bitsandbytes as bnb\nopt = bnb.optim.AdamW8bit(p, lr=1e-4, is_paged=True)\n"
    assert replaced(source) == "import torch\nopt = torch.optim.AdamW(p, lr=1e-4)\n"
    assert any("quantisation" in finding.why for finding in of_code(source, "JM146"))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("from apex.parallel import SyncBatchNorm\nb = SyncBatchNorm(8, channel_last=False)",
         "b = torch.nn.SyncBatchNorm(8)"),
        ("import apex\nm = apex.parallel.convert_syncbn_model(m)",
         "m = torch.nn.SyncBatchNorm.convert_sync_batchnorm(m)"),
        ("from apex.parallel import DistributedDataParallel as DDP\nm = DDP(m, delay_allreduce=True)",
         "m = torch.nn.parallel.DistributedDataParallel(m)"),
        ("m = torch.nn.DataParallel(m)", ""),
        ("m = torch.nn.DataParallel(m).cuda()", "m = m.npu()"),
        ("m = torch.nn.DataParallel(Net(), device_ids=[0])", "m = Net()"),
        ("m = torch.nn.DataParallel(a or b)", "m = (a or b)"),
        ("if n > 1:\n    m = torch.nn.DataParallel(m)", "if n > 1:\n    pass"),
    ],
)  # fmt: skip
def test_modules_become_pytorchs(before: str, after: str) -> None:
    assert replaced(f"import torch\n{before}\n") == f"import torch\n{after}\n" if after else "import torch\n"


@pytest.mark.parametrize(
    "rest",
    ["torch.save(m.module.state_dict(), p)", "isinstance(m, torch.nn.DataParallel)", "k = 'module.fc'",
     "torch.nn.DataParallel(m, device_ids=[0, 1])"],
)  # fmt: skip
def test_data_parallel_stays_where_something_depends_on_it(rest: str) -> None:
    source = f"import torch\n{rest}\n"
    kept = source if "device_ids" in rest else f"{source}x = torch.nn.DataParallel(m)\n"
    assert replaced(kept) == kept
    assert of_code(kept, "JM147")
    assert of_code(kept, "JM113")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("torch.backends.cudnn.benchmark = True", ""),
        ("def f():\n    torch.backends.cudnn.benchmark = True", "def f():\n    pass\n"),
        ("torch.backends.cudnn.deterministic = args.d", "torch.use_deterministic_algorithms(args.d, warn_only=True)\n"),
        ("torch.backends.cuda.matmul.allow_tf32 = on", "torch.npu.matmul.allow_hf32 = on\n"),
        ("torch.backends.cudnn.allow_tf32 = False", "torch.npu.conv.allow_hf32 = False\n"),
        ("torch.cuda.nvtx.range_push('a')", "torch.npu.mstx.range_push('a')\n"),
        ("with torch.autograd.profiler.profile(use_cuda=True): pass",
         "with torch.autograd.profiler.profile(use_device='npu'): pass\n"),
        ("bf16 = torch.cuda.get_device_capability()[0] >= 8", "bf16 = torch.npu.is_bf16_supported()\n"),
        ("bf16 = torch.cuda.get_device_capability() >= (8, 0)", "bf16 = torch.npu.is_bf16_supported()\n"),
        ("if torch.cuda.get_device_capability()[0] >= 8:\n    dtype = torch.bfloat16",
         "if torch.npu.is_bf16_supported():\n    dtype = torch.bfloat16\n"),
    ],
)  # fmt: skip
def test_switches_become_the_npus(before: str, after: str) -> None:
    assert replaced(f"import torch\n{before}\n") == f"import torch\n{after}"


@pytest.mark.parametrize(
    "source",
    [
        "torch.backends.cudnn.benchmark = f()",
        "torch.backends.cudnn.benchmark = True\nif torch.backends.cudnn.benchmark: pass",
        "torch.backends.cudnn.benchmark = torch.backends.cudnn.deterministic = True",
    ],
)
def test_switches_that_are_read_or_computed_stay(source: str) -> None:
    assert replaced(f"import torch\n{source}\n") == f"import torch\n{source}\n"


def test_a_test_of_the_capability_that_is_not_about_bfloat16_is_left() -> None:
    source = "import torch\nuse_kernel = torch.cuda.get_device_capability()[0] >= 8\n"
    assert "is_bf16_supported" not in replaced(source)
    (found,) = of_code(source, "JM148")
    assert "not bfloat16" in found.message


def test_for_any_accelerator_cudas_switches_stay() -> None:
    source = "import torch\ntorch.backends.cudnn.benchmark = True\ntorch.backends.cuda.matmul.allow_tf32 = True\n"
    assert replaced(source, target="agnostic") == source


def test_a_disabled_rule_replaces_nothing_and_keeps_its_imports() -> None:
    source = f"{FLASH}from apex.optimizers import FusedAdam\nflash_attn_func(q, k, v)\no = FusedAdam(p)\n"
    after = replaced(source, disable=frozenset({"JM145"}))
    assert "from flash_attn import flash_attn_func\n" in after
    assert "apex" not in after
