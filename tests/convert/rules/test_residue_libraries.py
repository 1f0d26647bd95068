"""Libraries with CUDA code of their own: the table, their imports, each use with what differs."""

from __future__ import annotations

import re

import pytest
from convert_cases import converted, findings, outcome

from jumar.base.findings import Severity
from jumar.convert import ConvertOptions, convert_source
from jumar.convert.model.project import ProjectFacts
from jumar.convert.rules.order import rules_by_code
from jumar.convert.rules.subject.counterparts import libraries, library_of, use_of
from jumar.soc.support.data import table
from jumar.soc.support.public_api import public_names

_NPU_NAME = re.compile(r"torch_npu\.[\w.]*\w|torch\.npu\.[\w.]*\w")


def test_every_library_says_why_what_to_do_and_where_that_is_documented() -> None:
    assert len(libraries()) > 60
    for library in libraries().values():
        assert library.reason, library.name
        assert library.action.endswith("."), library.name
        assert library.source, library.name


def test_every_use_has_differences_a_source_and_a_rule_that_exists() -> None:
    codes = {rule.code for rule in rules_by_code().values()}
    for library in libraries().values():
        for name, use in library.uses.items():
            assert use.differs, (library.name, name)
            assert use.source, (library.name, name)
            assert use.similar is None or use.similar in codes, (library.name, name)


def test_every_npu_name_in_the_table_exists_in_torch_npu() -> None:
    operators = {f"torch_npu.{schema.partition('(')[0]}" for schema in table("npu_custom_operators")["schemas"]}
    known = {*public_names(), *operators}
    named = {
        name.replace("torch.npu", "torch_npu.npu", 1)
        for library in libraries().values()
        for use in library.uses.values()
        for text in (*use.counterparts, library.action)
        for name in _NPU_NAME.findall(text)
    }
    modules = {"torch_npu.optim", "torch_npu.contrib", "torch_npu.npu.mstx", "torch_npu.optim.NpuFused"}
    assert sorted(name for name in named - modules if name not in known) == []


@pytest.mark.parametrize(
    ("name", "library"),
    [
        ("apex", "apex"),
        ("apex.optimizers.FusedAdam", "apex"),
        ("nvidia.dali.pipeline_def", "nvidia.dali"),
        ("apexlike", None),
        ("nvidia", None),
        ("numba.njit", None),
        ("numba.cuda.jit", "numba.cuda"),
    ],
)
def test_a_name_belongs_to_the_library_with_the_longest_matching_name(name: str, library: str | None) -> None:
    found = library_of(name)
    assert library == (found.name if found is not None else None)


def test_a_function_inside_a_listed_module_is_known_and_one_outside_is_not() -> None:
    found = use_of("flash_attn.layers.rotary.apply_rotary_emb_qkv_")
    assert found is not None
    assert found[1].counterparts == ("torch_npu.npu_rotary_mul",)
    assert use_of("apex.RNN.LSTM") is None


def test_the_most_specific_entry_wins() -> None:
    found = use_of("apex.normalization.fused_layer_norm.fused_rms_norm_affine")
    assert found is not None
    assert found[1].counterparts[0] == "torch.nn.functional.rms_norm"


@pytest.mark.parametrize(
    ("source", "severity", "optional"),
    [
        ("import apex", Severity.WARNING, False),
        ("try:\n    import apex\nexcept ImportError:\n    apex = None", Severity.ADVICE, True),
        ("def f():\n    import apex", Severity.ADVICE, True),
        ("if use_apex:\n    import apex", Severity.ADVICE, True),
        ("if __name__ == '__main__':\n    import apex", Severity.WARNING, False),
        ("try:\n    import apex\nfinally:\n    pass", Severity.WARNING, False),
        ("from flash_attn import *", Severity.WARNING, False),
        ("import deepspeed", Severity.INFO, False),
        ("import importlib\nm = importlib.import_module('apex.amp')", Severity.ADVICE, True),
        ("import importlib.util\nok = importlib.util.find_spec('flash_attn')", Severity.ADVICE, True),
    ],
)
def test_an_import_weighs_what_it_breaks(source: str, severity: Severity, optional: bool) -> None:
    (found,) = findings(source + "\n", "JM111")
    assert (severity, optional) == (found.severity, found.evidence["optional"])


def test_one_import_statement_is_one_finding_that_names_all_its_items() -> None:
    (found,) = findings("from apex.optimizers import FusedAdam, FusedLAMB\n", "JM111")
    assert found.evidence["names"] == ["apex.optimizers.FusedAdam", "apex.optimizers.FusedLAMB"]


def test_a_library_that_needs_nothing_is_told_of_once_a_file() -> None:
    source = "import deepspeed\nfrom deepspeed import comm\nfrom deepspeed.ops.adam import FusedAdam\n"
    assert len(findings(source, "JM111")) == 1


@pytest.mark.parametrize("source", ["import kornia", "import faiss", "import detectron2", "from . import apex"])
def test_libraries_that_mostly_run_anywhere_and_own_modules_are_not_reported_when_imported(source: str) -> None:
    found = convert_source(source + "\nx = 'cuda'\n", "a.py")
    assert [finding for finding in found.findings if finding.code == "JM111"] == []


def test_a_projects_own_package_is_no_third_party() -> None:
    source = "import apex\nfrom apex.optimizers import FusedAdam\nFusedAdam([])\n"
    facts = ProjectFacts(exports={"apex.optimizers": {}})
    for path, project in (("train.py", facts), ("apex/amp/amp.py", ProjectFacts())):
        found = convert_source(source, path, ConvertOptions(), project)
        assert {finding.code for finding in found.findings}.isdisjoint({"JM111", "JM130"})


@pytest.mark.parametrize(
    ("source", "words"),
    [
        (
            "from flash_attn import flash_attn_func\nflash_attn_func(q, k, v)",
            ("input_layout='BSND'", "head_num", "keep_prob = 1 - dropout_p", "sparse_mode=3", "1.0 in npu_fusion"),
        ),
        (
            "from flash_attn import flash_attn_varlen_func as f\nf(q, k, v, a, b, c, d)",
            ("actual_seq_qlen", "'TND'", "without the leading 0"),
        ),
        ("import xformers.ops as x\nx.memory_efficient_attention(q, k, v)", ("attn_mask", "dropout_p", "sparse_mode")),
        ("from apex import amp\namp.initialize(m, o, opt_level='O2')", ("O0", "O1", "O2", "O3", "loss_scale")),
        ("from apex.optimizers import FusedAdam\nFusedAdam(p)", ("weight_decay is 0 by default", "adam_w_mode")),
        ("from apex.normalization import MixedFusedLayerNorm as L\nL(8)", ("dtype of its weights",)),
        ("import bitsandbytes as bnb\nbnb.optim.AdamW8bit(p)", ("four times the memory",)),
        ("from mmcv.ops import RoIAlign\nRoIAlign(7)", ("does not list it for Ascend",)),
        ("from mmcv.ops import nms\nnms(b, s, 0.5)", ("lists it for Ascend",)),
        ("import faiss\nfaiss.index_cpu_to_gpu(r, 0, i)", ("the results are the same",)),
        ("from numba import cuda\n@cuda.jit\ndef k(a): ...", ("CUDA kernel",)),
        ("import pynvml\npynvml.nvmlDeviceGetMemoryInfo(h)", ("(free, total)",)),
        ("from torch_scatter import scatter_max\nscatter_max(a, b)", ("dim_size",)),
    ],
)
def test_a_use_names_its_counterpart_and_what_differs(source: str, words: tuple[str, ...]) -> None:
    (found,) = findings(source + "\n", "JM130")
    assert [word for word in words if word not in found.why] == []
    assert "Source: " in found.why
    assert converted(source + "\n") == source + "\n"


def test_a_class_derived_from_a_libraries_class_counts_and_a_mere_mention_does_not() -> None:
    head = "from apex.normalization import FusedLayerNorm\n"
    assert len(findings(f"{head}class N(FusedLayerNorm): ...\n", "JM130")) == 1
    assert findings(f"{head}names = [FusedLayerNorm]\n", "JM130") == []


def test_a_use_of_an_optional_import_weighs_less() -> None:
    head = "try:\n    from flash_attn import flash_attn_func\nexcept ImportError:\n    flash_attn_func = None\n"
    (found,) = findings(f"{head}def f(q):\n    return flash_attn_func(q, q, q)\n", "JM130")
    assert (found.severity, found.evidence["optional"]) == (Severity.ADVICE, True)


def test_uses_that_need_nothing_are_told_of_once() -> None:
    source = "from mmcv.ops import nms\nnms(a, b, 1)\nnms(a, b, 2)\n"
    assert [finding.severity for finding in outcome(source).findings if finding.code == "JM130"] == [Severity.INFO]


@pytest.mark.parametrize(
    ("name", "severity", "counterpart"),
    [
        ("deepspeed.ops.adam.FusedAdam", Severity.INFO, "torch_npu.optim.NpuFusedAdamW"),
        ("deepspeed.ops.lamb.FusedLamb", Severity.INFO, "torch_npu.optim.NpuFusedLamb"),
        ("deepspeed.ops.adam.DeepSpeedCPUAdam", Severity.INFO, ""),
        ("deepspeed.ops.transformer.DeepSpeedTransformerLayer", Severity.ADVICE, "torch.nn.TransformerEncoderLayer"),
        ("deepspeed.ops.sparse_attention.SparseSelfAttention", Severity.ADVICE, "scaled_dot_product_attention"),
        ("deepspeed.ops.deepspeed4science.DS4Sci_EvoformerAttention", Severity.ADVICE, "scaled_dot_product_attention"),
        ("deepspeed.ops.op_builder.TransformerBuilder", Severity.ADVICE, ""),
        ("deepspeed.ops.op_builder.FusedAdamBuilder", Severity.ADVICE, "get_accelerator()"),
        ("deepspeed.runtime.fp16.onebit.adam.OnebitAdam", Severity.ADVICE, "torch.optim.AdamW"),
    ],
)
def test_kernels_of_deepspeed_are_named_with_their_counterpart(name: str, severity: Severity, counterpart: str) -> None:
    module, _, last = name.rpartition(".")
    (found,) = findings(f"from {module} import {last}\nx = {last}(p)\n", "JM130")
    assert last in found.message
    assert found.severity == severity
    assert counterpart in f"{found.message} {found.action} {found.evidence}"
