"""What is true of an operator: `Operator`, looked up by name in every spelling.

Traits come from two places: `computed.json` (schemas, alias annotations and tags of PyTorch, by overload) and
`judged.json` (what no schema tells, by operator). A name without overload has a trait when one of its overloads has it;
`out` overloads do not count. It has `pointwise`, `reduction` and `composite` when its unnamed overload has, or all.
An operator that is unknown (another library, another release of PyTorch) has only what its name tells, and `known` is
False. It counts as one that calculates.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from typing import Any, Literal, get_args

from jumar.operators import computed as schemas_traits
from jumar.operators.data import computed, judged
from jumar.operators.names import canonical_name, canonical_names, functional_name, parse

Computed = Literal[
    "view",
    "view_copy",
    "inplace_view",
    "in_place",
    "out",
    "draws",
    "factory",
    "like",
    "query",
    "to_host",
    "dynamic_shape",
    "pointwise",
    "reduction",
    "composite",
    "backward",
    "foreach",
    "collective",
    "marker",
]
Judged = Literal[
    "hidden_view",
    "may_copy",
    "copies",
    "uninitialised",
    "adopting",
    "overwriting",
    "draws_if",
    "never_draws",
    "never_pointwise",
    "exact",
    "moves",
    "bounded",
    "selective",
    "dividing",
    "exponential",
    "linear",
    "shuffling",
    "singular",
    "absorbs_negative",
    "absorbs_inf",
    "checks",
    "elementwise",
    "keeps_sign",
    "atomic_adds",
    "shape_only",
    "gathers",
    "dynamic_shape_if",
    "low_precision_safe",
    "takes_strides",
    "takes_up",
    "no_half_on_cpu",
    "spatial",
    "channels_last",
    "hands_on",
    "tuned",
]
Family = Literal[
    "product",
    "convolution",
    "normalization",
    "attention",
    "softmax",
    "pooling",
    "recurrent",
    "loss",
    "optimizer",
    "activation",
    "embedding",
    "resampling",
    "padding",
    "scan",
    "sorting",
    "spectral",
    "reshape",
    "permutation",
    "concatenation",
    "splitting",
    "slicing",
    "comparison",
    "logical",
    "arithmetic",
    "dropout",
    "fill",
]
Derived = Literal["aliases", "random", "transport", "sized_by_values"]
Trait = Computed | Judged | Family | Derived
"""A trait's meaning is in `all_traits()`."""

_NAMESPACES = ("", "aten", "npu")
"""Namespaces whose operators are known by their base name alone."""
_PROBABILITIES = ("p", "dropout_p", "dropout", "dropout_prob", "prob")
_FLAGS = ("train", "training", "is_training")


@dataclass(frozen=True, slots=True)
class Operator:
    """One operator, or one overload of it."""

    name: str
    namespace: str
    base: str
    overload: str
    functional: str
    canonical: str
    traits: frozenset[str]
    writes: tuple[int, ...]
    """Positions of the arguments that it writes, running statistics that its schema does not mark included."""
    known: bool

    def has(self, trait: Trait) -> bool:
        """Return whether the operator has `trait`."""
        return trait in self.traits


@lru_cache(maxsize=16384)
def operator(name: str) -> Operator:
    """Return what is known of `name`, in any spelling."""
    namespace, base, overload = parse(name)
    found = _computed(namespace, base, overload)
    functional, canonical = functional_name(name), canonical_name(name)
    own = judged_traits(name)
    words = schemas_traits.of_name(name) if found is None else _words(found[0])
    return Operator(
        name=name,
        namespace=namespace,
        base=base,
        overload=overload,
        functional=functional,
        canonical=canonical,
        traits=_derived(words, own),
        writes=(found[1] if found else ()) or tuple(judged()["writes"].get(functional, ())),
        known=found is not None or bool(own),
    )


def of_overload(overload: Any) -> Operator:
    """Return what is known of a live `torch._ops.OpOverload`, by its own schema: of any library, of any release."""
    name = str(overload.name())
    packaged = operator(name)
    traits, places = schemas_traits.of_overload(overload)
    words = _derived(traits | (packaged.traits & {"composite"}), judged_traits(name))
    silent = tuple(judged()["writes"].get(packaged.functional, ()))
    return replace(packaged, traits=words, writes=places or silent, known=True)


def has(name: str, trait: Trait) -> bool:
    """Return whether the operator `name` has `trait`."""
    return trait in operator(name).traits


def has_any(name: str, *traits: Trait) -> bool:
    """Return whether the operator `name` has one of `traits`."""
    return not operator(name).traits.isdisjoint(traits)


def writes(name: str) -> tuple[int, ...]:
    """Return the positions of the arguments that the operator writes."""
    return operator(name).writes


@cache
def undefined_outputs() -> Mapping[str, tuple[int, ...]]:
    """Return, by functional and canonical name, the results in which elements are not defined.

    Two correct runs may differ there: a kernel's notes for its own backward (workspace, packed weights, a generator's
    state) or padding.
    """
    table = {name: tuple(places) for name, places in judged()["undefined"].items()}
    return {**{canonical_names().get(name, name): places for name, places in table.items()}, **table}


@cache
def named(*traits: Trait) -> frozenset[str]:
    """Return the base names of all operators that have one of `traits`, in every spelling.

    That is `add_` and `add`, and canonical names that no operator has (`softmax_backward`): a test for membership works
    with any of them. Names of the vendor's operators are there without namespace.
    """
    wanted, known = frozenset(traits), _base_traits()
    names = {base for base, found in known.items() if not found.isdisjoint(wanted)}
    spellings = [_spellings(base) for base in names]
    names |= {plain for plain, _ in spellings}
    return frozenset(names | {canonical for _, canonical in spellings} - (known.keys() - names))


def _spellings(base: str) -> tuple[str, str]:
    """Return the functional and the canonical name of a base name.

    NOTE: asked for 2,000 names at the first lookup, for which the functions of `names` take twice the time.
    """
    plain = functional_name(base) if base.startswith("__") else base.removesuffix("_")
    name = plain.removeprefix("_foreach_")
    return plain, canonical_names().get(name, name)


def listed(name: str) -> tuple[str, ...]:
    """Return a list of overloads of `judged.json`, without namespace: `autocast_float32`, for example."""
    return tuple(judged()["lists"][name].split())


def npu_equivalents() -> Mapping[str, str]:
    """Return, for operators of another device's implementation, the one whose support decides on an NPU."""
    equivalents: Mapping[str, str] = judged()["npu_equivalents"]
    return equivalents


def draws(name: str, arguments: Mapping[str, Any] | None = None) -> bool:
    """Return whether a call of the operator draws random numbers.

    `arguments` are the call's arguments by name. They and the defaults of the schema decide for an operator that draws
    only with a dropout probability above 0, or only in training; without `arguments` it counts as one that draws.
    """
    traits = operator(name).traits
    if "draws" not in traits:
        return False
    if "draws_if" not in traits or arguments is None:
        return True
    from jumar.operators.schemas import defaults

    given = {**defaults(name), **arguments}
    if any(_is_zero(given[key]) for key in _PROBABILITIES if key in given):
        return False
    if "keep_prob" in given and given["keep_prob"] in (1, 1.0):
        return False
    return not any(given[key] is False for key in _FLAGS if key in given)


def judged_traits(name: str) -> frozenset[str]:
    """Return the traits that `judged.json` gives to an operator, under its own name and under its canonical one."""
    table, nothing = _judged(), frozenset[str]()
    return table.get(functional_name(name), nothing) | table.get(canonical_name(name), nothing)


def all_traits() -> Mapping[str, str]:
    """Return every trait and its meaning."""
    derived = {
        "aliases": "Returns its input's memory, or may.",
        "random": "Draws random numbers whatever its arguments are.",
        "transport": "Shows, moves or casts elements, nothing else.",
        "sized_by_values": "The shape of its result depends on values whatever its arguments are.",
    }
    return {**judged()["words"], **schemas_traits.WORDS, **derived}


def names_of(union: Any) -> tuple[str, ...]:
    """Return the words of a union of literals such as `Trait` or `Family`."""
    return tuple(word for part in get_args(union) for word in (names_of(part) if get_args(part) else (part,)))


@cache
def _derived(traits: frozenset[str], own: frozenset[str]) -> frozenset[str]:
    found = set(traits | own)
    if "never_draws" in own:
        found.discard("draws")
    if "never_pointwise" in own:
        found.discard("pointwise")
    if "pointwise" in found:
        found.add("elementwise")
    if "like" in found:
        found.add("shape_only")
    if not found.isdisjoint(("view", "hidden_view")):
        found.add("aliases")
        found.add("exact")
    if not found.isdisjoint(("aliases", "copies")):
        found.add("transport")
    if "view_copy" in found:
        found |= {"exact", "moves"}
    if "draws" in found and "draws_if" not in found:
        found.add("random")
    if "dynamic_shape" in found and "dynamic_shape_if" not in found:
        found.add("sized_by_values")
    return frozenset(found)


def _is_zero(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isclose(value, 0.0)


@cache
def _judged() -> Mapping[str, frozenset[str]]:
    return {name: frozenset(text.split()) for name, text in judged()["operators"].items()}


@cache
def _words(bits: int) -> frozenset[str]:
    return frozenset(word for bit, word in enumerate(computed()["traits"]) if bits >> bit & 1)


def _computed(namespace: str, base: str, overload: str) -> tuple[int, tuple[int, ...]] | None:
    """Return the bits and the written arguments of one overload, or of all together."""
    data = computed()
    number: int | None = None
    if namespace:
        number = data["operators"].get(f"{namespace}::{base}", {}).get(overload)
    if number is None and namespace in _NAMESPACES:
        number = data["bases"].get(base)
    if number is None:
        return None
    bits, places = data["profiles"][number]
    return bits, tuple(places)


@cache
def _base_traits() -> Mapping[str, frozenset[str]]:
    """Return the traits of every base name that the data hold."""
    data, own, nothing = computed(), _judged(), frozenset[str]()
    found: dict[str, frozenset[str]] = {}
    for base, number in data["bases"].items():
        plain, canonical = _spellings(base)
        judgement = own.get(plain, nothing) | own.get(canonical, nothing)
        found[base] = _derived(_words(data["profiles"][number][0]), judgement)
    others = {word for text in judged()["variants"].values() for word in text.split()} | set(own)
    for base in others - found.keys():
        found[base] = _derived(schemas_traits.of_name(base), judged_traits(base))
    return found
