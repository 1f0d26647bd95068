"""Which rules run over a Python source, in which order, and for which files: `ORDER`.

The order is precedence: a place that an earlier rule claimed (converted, or left on purpose) is not touched by a
later one. The rules of other distributions come after Jumar's: `in_order`. The last two rules see all proposals before
them. This table imports no rule: `Step.load` does, when a
file holds what the rule asks for.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, cast

from jumar.base.rules import Rule, installed_modules, rules_of
from jumar.convert.model.step import RuleModule, Step, Words
from jumar.convert.rules.tensorflow.program.order import ORDER as TENSORFLOW

if TYPE_CHECKING:
    from jumar.convert.model.options import ConvertOptions


@lru_cache(maxsize=2)
def rules_by_code(group: str = "") -> Mapping[str, Rule]:
    """Return the rules of conversion and of its proof, or of one group (`files`), by code. Imports no rule of Jumar."""
    own = rules_of(f"convert.rules.{group}" if group else "convert")
    others = [] if group else [module.RULE for module in installed_modules("convert")]
    return {rule.code: rule for rule in (*own, *others) if not rule.code.startswith("JM2")}


@lru_cache(maxsize=8)
def steps(options: ConvertOptions, framework: str = "torch") -> tuple[Step, ...]:
    """Return the steps that take part with these options in a file of this framework, in the order they run."""
    rules = rules_by_code()
    return tuple(
        step
        for step in in_order(framework)
        if options.checks(rules[step.code]) and (step.when is None or step.when(options))
    )


def in_order(framework: str = "torch") -> tuple[Step, ...]:
    """Return all steps: those of Jumar's rules, with the rules of other distributions before the last two.

    Such a rule's module may have a `TRIGGER`. Files of TensorFlow have steps of their own, and users' rules.
    """
    if framework == "tensorflow":
        return (ORDER[0], *TENSORFLOW)
    others = [
        Step(module.RULE.code, cast("RuleModule", module), getattr(module, "TRIGGER", None))
        for module in installed_modules("convert")
    ]
    return (*ORDER[:-2], *others, *ORDER[-2:])


def _is_distributed(options: ConvertOptions) -> bool:
    return options.distributed is not None


def _is_similar(options: ConvertOptions) -> bool:
    return options.similar


def _takes_number(options: ConvertOptions) -> bool:
    return options.device_from_environment


def _has_user_rules(options: ConvertOptions) -> bool:
    return bool(options.user_rules)


def _library_words() -> Words:
    """Return a word of each library in the table that every file with its import holds (`dali` of `nvidia.dali`)."""
    from jumar.convert.rules.subject.counterparts import libraries

    return tuple(dict.fromkeys(name.rpartition(".")[2].lower().encode() for name in libraries()))


_TRAINING: Words = (b"torch", b"makedirs", b"mkdir", b"shutil")
_NUMBERED = re.compile(rb"cuda|\.to\(\s*\d|device(?:_ids)?\s*=\s*[\[(]?\s*\d|index\s*=\s*\d|torch\.device\(\s*\d")
_LOADS = re.compile(rb"\bload\b.{0,8}\(|import[^\n]*\bload\b|load_url|from_url|load_from_checkpoint")
_COMPILES = re.compile(rb"torch\.jit|torch\.compile|torch import[^\n]*(?:jit|compile)|_inductor|_dynamo|torch\._c\b")
_DTYPES = re.compile(
    rb"torch\.(?:float64|double|complex128|cdouble|float8_|uint(?:16|32|64))|\.c?double\(|doubletensor"
    rb"|dtype\s*=\s*['\"](?:torch\.)?(?:float64|double|complex128|float8)|torch import[^\n]*(?:float64|double)"
)

ORDER: tuple[Step, ...] = (
    Step("JM195", "user.user_rule", None, _has_user_rules),
    Step("JM182", "distributed.already_distributed", _TRAINING, _is_distributed),
    Step("JM181", "distributed.not_distributable", _TRAINING, _is_distributed),
    Step("JM175", "distributed.single_process_training", _TRAINING, _is_distributed),
    Step("JM176", "distributed.unshared_training_data", _TRAINING, _is_distributed),
    Step("JM177", "distributed.unaveraged_gradients", _TRAINING, _is_distributed),
    Step("JM178", "distributed.device_by_number", _TRAINING, _is_distributed),
    Step("JM179", "distributed.output_of_every_rank", _TRAINING, _is_distributed),
    Step("JM180", "distributed.value_of_one_rank", _TRAINING, _is_distributed),
    Step("JM183", "distributed.batch_size_of_one_rank", _TRAINING, _is_distributed),
    Step("JM184", "distributed.work_of_every_rank", _TRAINING, _is_distributed),
    Step("JM145", "similar.attention", (b"flash_attn", b"xformers"), _is_similar),
    Step("JM146", "similar.optimizer", (b"apex", b"bitsandbytes"), _is_similar),
    Step("JM147", "similar.module", (b"apex", b"dataparallel"), _is_similar),
    Step("JM148", "similar.switch", (b"cudnn", b"cuda"), _is_similar),
    Step("JM149", "similar.device_number", _NUMBERED, _takes_number),
    Step("JM116", "api.torch_cuda_import"),
    Step("JM111", "api.third_party_cuda", _library_words),
    Step("JM165", "affinity.channel_shuffle", (b"transpose", b"permute", b"swap")),
    Step("JM166", "affinity.focus", (b"::2",)),
    Step("JM167", "affinity.attention", (b"softmax",)),
    Step("JM168", "affinity.activation", (b"sigmoid", b"tanh")),
    Step("JM169", "affinity.rms_norm", (b"rsqrt",)),
    Step("JM170", "affinity.rotary", (b"cos",)),
    Step("JM171", "affinity.swiglu", (b"silu", b"sigmoid")),
    Step("JM172", "affinity.masked_assignment", (b"] = ", b"]=")),
    Step("JM173", "affinity.drop_path", (b"rand", b"bernoulli")),
    Step(
        "JM174",
        "affinity.library_counterpart",
        (
            b"torchvision",
            b"roll",
            b"baddbmm",
            b"multiheadattention",
            b"quantize_dynamic",
            b"mmcv",
            b"mmdet",
            b"fairseq",
        ),
    ),
    Step("JM150", "manual.loss_target_int64", (b"crossentropyloss", b"nllloss", b"cross_entropy", b"nll_loss")),
    Step("JM151", "manual.loader_keeps_partial_batch", (b"dataloader",)),
    Step("JM152", "manual.loader_does_not_pin", (b"dataloader",)),
    Step("JM153", "manual.batch_copy_blocks", (b"dataloader",)),
    Step("JM156", "manual.apex_amp", (b"apex",)),
    Step("JM163", "manual.apex_gradients_apart", (b"apex",)),
    Step("JM154", "manual.training_without_loss_scale", (b".backward",)),
    Step("JM155", "manual.training_without_autocast", (b".backward",)),
    Step("JM157", "manual.optimizer_not_fused", (b"optim", b"lamb", b"adam")),
    Step("JM158", "manual.device_never_set", (b"cuda",)),
    Step("JM161", "manual.compile_mode_unset", (b"cuda",)),
    Step("JM159", "manual.checkpoint_without_scaler", (b"state_dict",)),
    Step("JM160", "manual.state_dict_prefix", (b"state_dict", b"[7:]", b"torch.load")),
    Step("JM162", "manual.shape_varies", (b"torch",)),
    Step("JM164", "manual.anomaly_detection_on", (b"detect_anomaly", b"gradcheck", b"gradgradcheck")),
    Step("JM199", "api.lightning_accelerator", (b"lightning",)),
    Step("JM109", "api.cuda_environment"),
    Step("JM118", "api.cuda_out_of_memory_text"),
    Step("JM119", "api.cuda_by_name"),
    Step("JM108", "api.cuda_device_guard"),
    Step("JM106", "api.cuda_amp"),
    Step("JM101", "api.torch_cuda_api"),
    Step("JM117", "api.cuda_profiler"),
    Step("JM105", "api.nccl_backend"),
    Step("JM103", "api.tensor_cuda_method"),
    Step("JM104", "api.is_cuda"),
    Step("JM102", "api.cuda_device_string"),
    Step("JM110", "api.cudnn_flag", (b"cudnn", b"backends", b"float32_matmul_precision")),
    Step("JM112", "api.load_without_map_location", _LOADS),
    Step("JM113", "api.data_parallel", (b"dataparallel", b"data_parallel")),
    Step("JM130", "residue.cuda_library_use", _library_words),
    Step("JM131", "residue.cuda_extension"),
    Step("JM132", "residue.triton_kernel", (b"triton",)),
    Step(
        "JM133",
        "residue.library_switch",
        (b"flash", b"bit", b"fused", b"xformers", b"_bnb", b"tf32", b"nvfuser", b"kernel_inject", b"with_cuda"),
    ),
    Step(
        "JM134",
        "residue.framework_device",
        (b"accelerator", b"gpus", b"use_gpu", b"strategy", b"no_cuda", b"use_cuda"),
    ),
    Step(
        "JM135",
        "residue.compute_capability",
        (b"capability", b"get_device_properties", b"version", b"sm_", b"compute_"),
    ),
    Step("JM136", "residue.graph_compiler", _COMPILES),
    Step("JM137", "residue.memory_format", (b"channels_last",)),
    Step("JM138", "residue.limited_dtype", _DTYPES),
    Step("JM139", "residue.checkpoint_device", (b"map_location",)),
    Step("JM140", "residue.device_semantics", (b"cuda",)),
    Step("JM141", "residue.device_count_arithmetic", (b"device_count",)),
    Step("JM142", "residue.collective_option", (b"pg_options", b"processgroupnccl", b"reduceop")),
    Step("JM143", "residue.pinned_memory", (b"pin_memory", b"preserve_rng_state")),
    Step(
        "JM144",
        "residue.private_cuda_api",
        (b"cuda", b"cudnn", b"nccl", b"nvtx", b"cublas", b"nvrtc", b"nvtools", b"nvidia"),
    ),
    Step("JM198", "residue.other_release", (b"torch_npu", b"torch.npu")),
    Step("JM107", "api.import_torch_npu"),
    Step("JM114", "residue.cuda_left_over"),
)
