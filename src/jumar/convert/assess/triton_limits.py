"""What triton-ascend is documented to lack, by what a Triton kernel uses.

Source: the repository triton-lang/triton-ascend, `docs/zh/triton_api/*` (one page an operator, its table of dtypes and
its section of limits, for Atlas A2 and A3), `docs/sources/python-api/outline.md` (the table of all operators) and
`docs/en/migration_guide/migrate_from_gpu.md`, as of April 2026; for `triton.Config` the notes of
`docs/zh/python-api/_ascend_constraints.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

LANGUAGE = "triton.language."


@dataclass(frozen=True, slots=True)
class Limit:
    """One documented limit of one name of `triton.language`."""

    text: str
    """A predicate for the name: `takes no int64`."""
    keywords: tuple[str, ...] = ()
    """Arguments that it concerns. The limit holds for every use where this is empty."""


_ORDER = Limit("knows the order `acq_rel` and the scope `gpu` only", ("sem", "scope"))

LIMITS: Mapping[str, tuple[Limit, ...]] = {
    "atomic_add": (Limit("takes no int64, uint64 or float64"), _ORDER),
    "atomic_and": (_ORDER,),
    "atomic_cas": (Limit("takes no int8, uint8, bfloat16 or float64"), _ORDER),
    "atomic_max": (Limit("takes no int64, unsigned integers or float64"), _ORDER),
    "atomic_min": (Limit("takes no int64, unsigned integers or float64"), _ORDER),
    "atomic_or": (_ORDER,),
    "atomic_xchg": (Limit("takes no bfloat16 or float64"), _ORDER),
    "atomic_xor": (_ORDER,),
    "associative_scan": (Limit("runs in reverse only over loads without a mask", ("reverse",)),),
    "device_print": (Limit("prints only where TRITON_DEVICE_PRINT=1 is set"),),
    "dot": (
        Limit("ignores `max_num_imprecise_acc`", ("max_num_imprecise_acc",)),
        Limit("gives float32 or int32, not float16 or int8", ("out_dtype",)),
    ),
    "dot_scaled": (Limit("takes no fp8 or fp4 operands, and int8 scales in place of uint8"),),
    "gather": (Limit("takes float16, bfloat16 and float32 only, along the last axis"),),
    "histogram": (Limit("takes no mask", ("mask",)), Limit("takes integers from 32 bits on only")),
    "inline_asm_elementwise": (Limit("takes Ascend's assembly and not PTX, for int64 and float32 of one dimension"),),
    "load": (
        Limit(
            "ignores `cache_modifier`, `eviction_policy` and `volatile`",
            ("cache_modifier", "eviction_policy", "volatile"),
        ),
    ),
    "make_tensor_descriptor": (
        Limit("cannot be mixed with `tl.load` and `tl.store` in one kernel"),
        Limit("takes no `padding_option`", ("padding_option",)),
    ),
    "permute": (Limit("does not reverse three dimensions ([2, 1, 0])"),),
    "sort": (Limit("takes int8, int16, float16, bfloat16 and float32 only"),),
    "store": (Limit("has incomplete `cache_modifier` and `eviction_policy`", ("cache_modifier", "eviction_policy")),),
    "trans": (Limit("does not reverse three dimensions ([2, 1, 0])"),),
    "umulhi": (Limit("takes int32 only"),),
}
"""By the name behind `triton.language.`."""

_NO_ARITHMETIC = "is in no operator's table of dtypes but a few"
DTYPES: Mapping[str, str] = {
    "float64": "is supported by no operator (a limit of the hardware)",
    "uint16": _NO_ARITHMETIC,
    "uint32": _NO_ARITHMETIC,
    "uint64": _NO_ARITHMETIC,
}
PREFIXES: Mapping[str, str] = {
    "float8e": "is no dtype of Atlas A2 and A3",
    "extra.cuda.": "holds functions for NVIDIA's chips; triton-ascend has a libdevice of its own",
    "extra.hip.": "holds functions for AMD's chips; triton-ascend has a libdevice of its own",
}
"""What begins so behind `triton.language.`."""

CONFIG: Mapping[str, str] = {
    "num_stages": "does not apply on Ascend",
    "num_ctas": "does not apply on Ascend",
    "maxnreg": "has no effect on Ascend",
}
"""Arguments of `triton.Config`."""


def of_use(name: str, keywords: frozenset[str]) -> list[str]:
    """Return the limits of one use of a qualified name, called with these keyword arguments."""
    if not name.startswith(LANGUAGE):
        return []
    bare = name.removeprefix(LANGUAGE).removeprefix("core.")
    found = [limit.text for limit in LIMITS.get(bare, ()) if not limit.keywords or keywords & set(limit.keywords)]
    if bare in DTYPES:
        found.append(DTYPES[bare])
    found += [text for prefix, text in PREFIXES.items() if bare.startswith(prefix)]
    return [f"`tl.{bare}` {text}" for text in found]
