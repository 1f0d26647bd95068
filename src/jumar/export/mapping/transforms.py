"""Changes of layout that an entry of a map names: `Step`, `parse_steps`, `apply_steps`.

A text of steps, separated by `;`:

    transpose                        the last two dimensions change places
    permute 3 2 0 1                  also `hwio_to_oihw` and `oihw_to_hwio`
    reshape 64 1 3 3
    split 1 of 3 along 0             the part of that number, from 0
    gates icfo to ifgo along 0       blocks of one size a letter change places; c and g are one gate
    columns hwc to chw 64 7 7        columns of a matrix behind a flattened image of C H W
    zeros 128                        no source: zeros of this shape
    concat along 0, add              several sources become one; steps before it apply to each source
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from jumar.base.errors import InputError

Shape = tuple[int, ...]
NAMED = {"hwio_to_oihw": (3, 2, 0, 1), "oihw_to_hwio": (2, 3, 1, 0)}
JOINING = ("concat", "add")


@dataclass(frozen=True, slots=True)
class Step:
    """One change: its kind and its numbers or words."""

    kind: str
    numbers: Shape = ()
    words: tuple[str, ...] = ()

    def __str__(self) -> str:
        numbers = " ".join(map(str, self.numbers))
        match self.kind:
            case "split":
                return "split {} of {} along {}".format(*self.numbers)
            case "gates":
                return f"gates {self.words[0]} to {self.words[1]} along {numbers}"
            case "columns":
                return f"columns {self.words[0]} to {self.words[1]} {numbers}"
            case "concat":
                return f"concat along {numbers}"
            case "permute" if self.numbers in NAMED.values():
                return next(name for name, order in NAMED.items() if order == self.numbers)
        return f"{self.kind} {numbers}".strip()


Steps = tuple[Step, ...]
TRANSPOSE = Step("transpose")


def text_of(steps: Sequence[Step]) -> str:
    """Return the text that `parse_steps` reads."""
    return "; ".join(map(str, steps))


_NUMBERS = r"((?:\d+\s*)+)"
_FORMS: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("transpose", re.compile(r"transpose()$")),
    ("add", re.compile(r"add()$")),
    ("permute", re.compile(rf"permute {_NUMBERS}$")),
    ("reshape", re.compile(rf"reshape {_NUMBERS}$")),
    ("zeros", re.compile(rf"zeros {_NUMBERS}$")),
    ("concat", re.compile(r"concat along (\d+)$")),
    ("split", re.compile(r"split (\d+ of \d+ along \d+)$")),
    ("gates", re.compile(r"gates (?P<old>[a-z]+) to (?P<new>[a-z]+) along (\d+)$")),
    ("columns", re.compile(r"columns (?P<old>[chw]{3}) to (?P<new>[chw]{3}) (\d+ \d+ \d+)$")),
)


def parse_steps(text: str) -> Steps:
    """Return the steps of a text. Raises InputError, in one sentence, for what is no step."""
    return tuple(_parsed(part.strip()) for part in text.split(";") if part.strip())


def _parsed(text: str) -> Step:
    if text in NAMED:
        return Step("permute", NAMED[text])
    for kind, form in _FORMS:
        if (found := form.match(text)) is None:
            continue
        named = found.groupdict()
        numbers = tuple(map(int, re.findall(r"\d+", found.groups()[-1])))
        step = Step(kind, numbers, (named["old"], named["new"]) if named else ())
        _check(step, text)
        return step
    kinds = ", ".join([*(kind for kind, _ in _FORMS), *NAMED])
    raise InputError(f"{text!r} is no change of layout; write one of {kinds}, with its numbers")


def _check(step: Step, text: str) -> None:
    if step.kind == "permute" and sorted(step.numbers) != list(range(len(step.numbers))):
        raise InputError(f"{text!r} must name each dimension once, from 0; correct its numbers")
    if step.kind == "split" and step.numbers[0] >= step.numbers[1]:
        raise InputError(f"{text!r} asks for a part beyond the last; parts count from 0")
    if step.words and (
        len(set(_letters(step.words[0]))) != len(step.words[0])
        or sorted(_letters(step.words[0])) != sorted(_letters(step.words[1]))
    ):
        raise InputError(f"{text!r} must have the same letters on both sides, each once; correct them")


def _letters(gates: str) -> str:
    """Return letters of gates in one spelling: the candidate of an LSTM is c, g or j."""
    return gates.replace("c", "g").replace("j", "g") if "f" in gates else gates


def apply_steps(steps: Sequence[Step], sources: Sequence[torch.Tensor]) -> torch.Tensor:
    """Return the tensor that the steps make of the sources. Raises InputError where they do not fit."""
    tensors = list(sources)
    for step in steps:
        try:
            if step.kind in JOINING:
                tensors = [_joined(step, tensors)]
            elif step.kind == "zeros":
                tensors = [torch.zeros(step.numbers)]
            else:
                tensors = [_APPLY[step.kind](tensor, step) for tensor in tensors]
        except (RuntimeError, IndexError, ValueError) as error:
            shapes = " and ".join(str(list(tensor.shape)) for tensor in tensors) or "nothing"
            first = str(error).splitlines()[0].rstrip(".")
            raise InputError(f"{str(step)!r} does not fit {shapes} ({first}); correct the change") from error
    if len(tensors) != 1:
        num = len(tensors)
        raise InputError(f"{num} sources must become one tensor; add `concat along D` or `add`, or name one source")
    return tensors[0]


def shape_after(steps: Sequence[Step], shapes: Sequence[Shape]) -> Shape:
    """Return the shape that the steps make, without values. Raises InputError where they do not fit."""
    steps = [Step("reshape", step.numbers) if step.kind == "zeros" else step for step in steps]
    if not shapes:
        shapes = [step.numbers for step in steps[:1]]
    return tuple(apply_steps(steps, [torch.empty(shape, device="meta") for shape in shapes]).shape)


def inverse(steps: Sequence[Step], shape: Shape) -> Steps:
    """Return the steps back, for a tensor of `shape`: of transposes, permutations, reshapes and gates alone."""
    found: list[Step] = []
    for step in steps:
        after = shape_after((step,), (shape,))
        match step.kind:
            case "permute":
                found.append(Step("permute", tuple(step.numbers.index(place) for place in range(len(step.numbers)))))
            case "reshape":
                found.append(Step("reshape", shape))
            case "gates" | "columns":
                found.append(Step(step.kind, step.numbers, step.words[::-1]))
            case _:
                found.append(step)
        shape = after
    return tuple(reversed(found))


def tidy(steps: Sequence[Step]) -> Steps:
    """Return the steps without pairs that undo each other."""
    found: list[Step] = []
    for step in steps:
        last = found[-1] if found else None
        if last is not None and step.kind == last.kind == "transpose":
            found.pop()
        elif last is not None and step.kind == last.kind == "permute":
            order = tuple(last.numbers[place] for place in step.numbers)
            found[-1:] = [] if order == tuple(range(len(order))) else [Step("permute", order)]
        elif last is not None and step.kind == last.kind == "gates" and step.words[::-1] == last.words:
            found.pop()
        else:
            found.append(step)
    return tuple(found)


def _joined(step: Step, tensors: Sequence[torch.Tensor]) -> torch.Tensor:
    if step.kind == "concat":
        return torch.cat(list(tensors), step.numbers[0])
    if len({tuple(tensor.shape) for tensor in tensors}) > 1:
        raise ValueError("the shapes differ")
    total = tensors[0].clone()
    for tensor in tensors[1:]:
        total += tensor
    return total


def _split(tensor: torch.Tensor, step: Step) -> torch.Tensor:
    number, parts, along = step.numbers
    size = tensor.shape[along]
    if size % parts:
        raise ValueError(f"{size} is no multiple of {parts}")
    return tensor.narrow(along, number * (size // parts), size // parts)


def _gates(tensor: torch.Tensor, step: Step) -> torch.Tensor:
    (along,) = step.numbers
    old, new = (_letters(word) for word in step.words)
    if tensor.shape[along] % len(old):
        raise ValueError(f"{tensor.shape[along]} is no multiple of {len(old)}")
    blocks = tensor.chunk(len(old), along) if tensor.shape[along] else [tensor] * len(old)
    return torch.cat([blocks[old.index(letter)] for letter in new], along)


def _columns(tensor: torch.Tensor, step: Step) -> torch.Tensor:
    sizes = dict(zip("chw", step.numbers, strict=True))
    if tensor.dim() != 2 or tensor.shape[1] != math.prod(sizes.values()):
        raise ValueError(f"the columns must be {math.prod(sizes.values())}")
    old, new = step.words
    image = tensor.reshape(tensor.shape[0], *(sizes[letter] for letter in old))
    return image.permute(0, *(old.index(letter) + 1 for letter in new)).reshape(tensor.shape)


_APPLY: dict[str, Callable[[torch.Tensor, Step], torch.Tensor]] = {
    "transpose": lambda tensor, _: tensor.transpose(-1, -2),
    "permute": lambda tensor, step: tensor.permute(step.numbers),
    "reshape": lambda tensor, step: tensor.reshape(step.numbers),
    "split": _split,
    "gates": _gates,
    "columns": _columns,
}
