"""What the names of modules say: `parts_of` splits a name, `roles_of` gives the words that tell equals apart.

Words that only say of which kind a layer is (linear, norm, conv) tell nothing that its shapes do not, and are left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache

from jumar.operators.layers import PARAMETERS

WRAPPERS = ("module", "_orig_mod", "_fsdp_wrapped_module", "_checkpoint_wrapped_module", "model", "backbone", "net")
"""Names that programs put before all others."""
ANYWHERE = frozenset(WRAPPERS[1:4])
"""Wrappers that stand within a name, too."""
_SAME = (
    "q query queries wq",
    "k key keys wk",
    "v value values wv",
    "out output wo o",
    "downsample shortcut skip",
    "pos position positional positions wpe",
    "tok token tokens word words wte",
    "segment type",
    "up expand",
    "down reduce",
    "encoder enc",
    "decoder dec",
    "cross crossattention encdec",
    "attn attention selfattention attentions mha",
    "mlp ffn feedforward ff ffw",
    "head classifier",
    "embedding embed embeddings emb",
)
_CANONICAL = {word: words.split()[0] for words in _SAME for word in words.split()}
_GENERIC = frozenset({
    "linear", "dense", "fc", "lin", "proj", "projection", "conv", "conv2d", "convolution", "norm", "ln", "bn",
    "layernorm", "batchnorm", "normalization", "batch", "self", "layer", "layers", "block", "blocks", "h", "module",
    "modules", "stage", "stages", "weight", "bias", "w", "b", "c", "to", "kernel", "embedding", "net", "cell", "unit",
    "depthwise", "pointwise",
})  # fmt: skip
EXCLUSIVE = (frozenset("qkv") | {"out"}, {"encoder", "decoder"}, {"up", "down", "gate"}, {"pos", "tok", "segment"})
"""Words of one of these sets exclude each other."""
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")


@cache
def parts_of(name: str, framework: str = "pytorch") -> tuple[str, ...]:
    """Return the components of a name, as the frameworks write them, without wrappers within.

    Keras' files repeat the name of a layer: `dense/dense/kernel:0`.
    """
    parts = [part for part in re.split(r"[./]", name.removesuffix(":0")) if part]
    if "ATTRIBUTES" in parts:
        parts = parts[: parts.index("ATTRIBUTES")]
    kept: list[str] = []
    for part in parts:
        repeats = framework == "tensorflow" and kept[-1:] == [part] and not part.isdigit()
        if part not in ANYWHERE and not repeats:
            kept.append(part)
    return tuple(kept)


def leaf_of(last: str) -> str:
    """Return PyTorch's name of a parameter: `gamma` is `weight`."""
    return PARAMETERS.get(last, last)


@cache
def words_of(part: str) -> tuple[str, ...]:
    """Return the words of one component, in one spelling: `q_proj` is `q`, `proj`; numbers are words, too."""
    words = (word.lower() for word in _WORD.findall(part))
    return tuple(_CANONICAL.get(word, word) for word in words)


def all_words(parts: Iterable[str]) -> frozenset[str]:
    """Return the words of a path, numbers left out."""
    return frozenset(word for part in parts for word in words_of(part) if not word.isdigit())


def roles_of(parts: Iterable[str]) -> frozenset[str]:
    """Return the words of a path that say more than the kind of a layer."""
    return all_words(parts) - _GENERIC


def numbers_of(parts: Iterable[str]) -> tuple[int, ...]:
    """Return the numbers in a path, in order."""
    return tuple(int(word) for part in parts for word in words_of(part) if word.isdigit())


def conflict(one: frozenset[str], other: frozenset[str]) -> bool:
    """Return whether two paths' words exclude each other: a query is no key."""
    return any((one & group) and (other & group) and not (one & other & group) for group in EXCLUSIVE)
