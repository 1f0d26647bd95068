"""Generated programs and renamings of them, where the right map is known."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass

import torch

from jumar.export.mapping.entries import MATCHED
from jumar.export.mapping.propose import Proposal, propose
from jumar.export.mapping.sides.side import Side, of_state

Shape = tuple[int, ...]
Tree = dict[str, "Tree | list[Tree] | dict[str, Shape]"]
WORDS = [
    "stem",
    "trunk",
    "body",
    "query",
    "key",
    "value",
    "attn",
    "mlp",
    "gate",
    "encoder",
    "decoder",
    "head",
    "proj",
    "mix",
    "pool",
    "skip",
    "norm",
    "conv",
    "fc",
    "embed",
]
OTHER = {
    "query": "q", "key": "k", "value": "v", "attn": "attention", "mlp": "ffn", "encoder": "enc", "decoder": "dec",
    "head": "classifier", "skip": "shortcut", "norm": "ln", "fc": "linear", "conv": "convolution",
    "embed": "embeddings", "proj": "projection",
}  # fmt: skip
SIZES = (4, 6, 8)


@dataclass(frozen=True)
class Case:
    """Tensors of two programs, and the right source of each target."""

    source: dict[str, torch.Tensor]
    target: dict[str, torch.Tensor]
    truth: dict[str, str]


def layer(rng: random.Random) -> dict[str, Shape]:
    one, other = rng.choice(SIZES), rng.choice(SIZES)
    bias = {"bias": (one,)} if rng.random() < 0.6 else {}
    kind = rng.randrange(4)
    if kind == 0:
        return {"weight": (one,), "bias": (one,)}
    if kind == 1:
        statistics = {"running_mean": (one,), "running_var": (one,)}
        return {"weight": (one,), "bias": (one,), **statistics}
    if kind == 2:
        return {"weight": (one, other, 3, 3), **bias}
    return {"weight": (one, other), **bias}


def tree(rng: random.Random, depth: int = 0) -> dict[str, object]:
    found: dict[str, object] = {}
    for word in rng.sample(WORDS, rng.randint(2, 5)):
        pick = rng.random()
        if depth < 3 and pick < 0.25:
            found[word] = tree(rng, depth + 1)
        elif depth < 2 and pick < 0.45:
            one = tree(rng, depth + 1)
            many = [one if rng.random() < 0.8 else tree(rng, depth + 1) for _ in range(rng.randint(2, 4))]
            found[word] = many
        elif pick < 0.6:
            found.update({f"{word}{number}": layer(rng) for number in range(1, rng.randint(2, 4))})
        else:
            found[word] = layer(rng)
    return found


def renamed(
    rng: random.Random, node: dict[str, object], how: str, fresh: Iterator[str]
) -> dict[str, tuple[str, object]]:
    """Return by old name the new name and the renamed child; the order may change."""
    entries = list(node.items())
    if how == "shuffled":
        rng.shuffle(entries)
    names: dict[str, str] = {}
    found = {}
    for old, child in entries:
        stem = old.rstrip("0123456789")
        number = old[len(stem) :]
        if stem not in names:
            names[stem] = {
                "kept": stem,
                "synonyms": OTHER.get(stem, stem),
                "fresh": next(fresh),
                "shuffled": next(fresh),
                "mixed": rng.choice([stem, OTHER.get(stem, stem), next(fresh)]),
            }[how]
        found[old] = (names[stem] + ("_" if number and rng.random() < 0 else "") + number, child)
    return found


def paths(
    rng: random.Random, node: object, how: str, fresh: Iterator[str], shift: int
) -> Iterator[tuple[tuple[str, ...], tuple[str, ...], Shape]]:
    """Yield the paths of each tensor in both programs, in the order of the second."""
    if isinstance(node, list):
        for number, child in enumerate(node):
            for old, new, shape in paths(random.Random(7), child, how, iter(_letters()), shift):
                yield (str(number), *old), (str(number + shift), *new), shape
        return
    assert isinstance(node, dict)
    if node and all(isinstance(value, tuple) for value in node.values()):
        for name, shape in node.items():
            yield (name,), (name,), shape
        return
    for old_name, (new_name, child) in renamed(rng, node, how, fresh).items():
        for old, new, shape in paths(rng, child, how, fresh, shift):
            yield (old_name, *old), (new_name, *new), shape


def _letters() -> Iterator[str]:
    syllables = [a + b for a in "bdgjptxz" for b in ("ax", "ez", "iq", "oj", "uv")]
    rng = random.Random(11)
    rng.shuffle(syllables)
    return (one + two for one in syllables for two in syllables)


HOW = ("kept", "synonyms", "fresh", "shuffled", "mixed")


def case(seed: int, how: str, drop: str = "", values: bool = False, wrap: bool = False, shift: int = 0) -> Case:
    """Return a program and a renaming of it. `drop` takes modules from one side: `source` or `target`."""
    rng = random.Random(seed)
    root = tree(rng)
    generator = torch.Generator().manual_seed(seed)
    triples = list(paths(rng, root, how, _letters(), shift))
    order = {name: number for number, name in enumerate(".".join(old) for old, _, _ in _plain(root))}
    gone = {old[:-1] for old, _, _ in triples if rng.random() < 0.2} if drop else set()
    source, target, truth = {}, {}, {}
    for old, new, shape in triples:
        first, second = ".".join(old), ".".join(("module", *new) if wrap else new)
        tensor = torch.randn(shape, generator=generator)
        if not (drop == "source" and old[:-1] in gone):
            source[first] = tensor
            truth[second] = first
        if not (drop == "target" and old[:-1] in gone):
            target[second] = tensor.clone() if values else torch.randn(shape, generator=generator)
    source = dict(sorted(source.items(), key=lambda entry: order.get(entry[0], 0)))
    return Case(source, target, {name: one for name, one in truth.items() if name in target})


def _plain(root: object) -> Iterator[tuple[tuple[str, ...], tuple[str, ...], Shape]]:
    return paths(random.Random(0), root, "kept", _letters(), 0)


@dataclass
class Score:
    """How many tensors a proposal gets right and wrong."""

    right: int = 0
    wrong: int = 0
    guessed_right: int = 0
    guessed_wrong: int = 0
    left: int = 0

    def add(self, found: Proposal, truth: dict[str, str]) -> list[str]:
        """Count a proposal; return the targets that are called matched and are wrong."""
        wrong = []
        for entry in found.entries:
            is_right = entry.sources == (truth.get(entry.target),) and not entry.steps
            if entry.status == MATCHED:
                self.right += is_right
                self.wrong += not is_right
                wrong += (
                    []
                    if is_right
                    else [f"{entry.target} <- {entry.sources} {entry.why}, not {truth.get(entry.target)}"]
                )
            else:
                self.guessed_right += is_right
                self.guessed_wrong += not is_right
        self.left += len(found.missing)
        return wrong


def sides(one: Case) -> tuple[Side, Side]:
    return of_state("A", one.source), of_state("B", one.target)


def proposed(one: Case) -> Proposal:
    return propose(*sides(one))
