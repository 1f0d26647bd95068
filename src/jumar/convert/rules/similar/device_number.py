"""## What it does
With the device taken from the environment (`-s`): a device number that stands in the sources (`.cuda(0)`,
`'cuda:1'`, `set_device(0)`, `torch.device('cuda', 0)`, `device_ids=[0]`) is read from an environment variable
instead: DEVICE_ID, or LOCAL_RANK where a launcher such as torchrun sets it; without either, the number that stood
there. Where an entry script never sets the device, a call of `set_device` comes first in its main guard.
Nothing else changes: numbers in variables stay.

## Why it matters
A number in the sources puts every run on the same device: two jobs on one machine collide, and under a launcher
all processes do. On an NPU a thread that computes before the device is set has initialized device 0, and setting
another one later fails.

## Example
```python
torch.cuda.set_device(0)
model = Net().to('cuda:0')
```

## Use instead
```python
torch.npu.set_device(int(os.getenv('LOCAL_RANK', os.getenv('DEVICE_ID', '0'))))
model = Net().to(f'npu:{os.getenv("LOCAL_RANK", os.getenv("DEVICE_ID", "0"))}')
```

## Fix safety
Safe: without the variables the result is the same. A file that names several numbers is left, because one
variable cannot stand for two devices. Processes that the program itself spawns share their parent's environment,
so nothing is added there.

## References
- PyTorch network model porting and training guide: script conversion, option -s/--specify-device
- https://pytorch.org/docs/stable/elastic/run.html (LOCAL_RANK)
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from jumar.base.findings import Severity
from jumar.base.rules import Rule
from jumar.convert.model.edits import Proposal, Replacement
from jumar.convert.rules.similar.replacing.number_sites import Site, computed, sites
from jumar.convert.rules.similar.replacing.spelling import spelled
from jumar.convert.rules.subject.context import Context, names_any
from jumar.convert.rules.subject.entry import Entry, entry, is_spawning
from jumar.convert.syntax.devices import callee_name
from jumar.convert.syntax.literals import literals
from jumar.convert.syntax.source import Source

RULE = Rule(
    code="JM149",
    name="device-number",
    summary="A device number stands in the sources, where the environment should choose.",
    severity=Severity.ADVICE,
    doc=__doc__,
    safety="safe",
)

VARIABLES = ("LOCAL_RANK", "DEVICE_ID")
"""Environment variables that give the number, the first one that is set."""

_SETTERS = frozenset({"set_device", "set_device_index", "set_device_idx"})


def find(context: Context) -> Iterator[Proposal]:
    """Take each number from the environment, and set the device where a script begins."""
    if not context.options.device_from_environment:
        return
    source = context.source
    found = [site for site in sites(source) if not context.within_covered(source.span(site.node))]
    numbers = sorted({site.number for site in found})
    reason = _refusal(source, found, numbers)
    for site in found:
        yield _left(source, site, reason) if reason else _taken(context, site)
    if not reason:
        yield from _set_device(context, numbers[0] if numbers else 0)


def _refusal(source: Source, found: list[Site], numbers: list[int]) -> str:
    if len(numbers) > 1:
        return f"this file uses devices {', '.join(map(str, numbers))}, and one variable cannot name them all"
    for site in found:
        if source.scope(site.node).candidates("os") not in (("os",), (None,)) or _is_shadowed(source, site.node):
            return "`os` is another name here"
    return ""


def _is_shadowed(source: Source, node: cst.CSTNode) -> bool:
    home = source.scope(node).home("os")
    return home is not None and source.scope(node).candidates("os") != ("os",)


def _environment(number: int, quote: str) -> str:
    """Return an expression for the number as text, from the environment."""
    text = f"{quote}{number}{quote}"
    for variable in reversed(VARIABLES):
        text = f"os.getenv({quote}{variable}{quote}, {text})"
    return text


def _other(quote: str) -> str:
    return "'" if quote == '"' else '"'


def _taken(context: Context, site: Site) -> Proposal:
    source = context.source
    inside = source.enclosing(site.node, cst.FormattedString)
    quote = context.quote if inside is None or context.quote not in inside.end else _other(context.quote)
    requires: tuple[str, ...] = ("import os",)
    if site.text:
        word = context.dialect.device_word(quote)
        name = word.strip("'\"") if word[0] in "'\"" else f"{{{word}}}"
        new = f"f{quote}{name}:{{{_environment(site.number, _other(quote))}}}{quote}"
        requires = (*context.dialect.requires, *requires)
    else:
        new = f"int({_environment(site.number, quote)})"
    return Proposal(
        rule=RULE,
        span=source.span(site.node),
        message=f"Device number {site.number} is taken from the environment ({', '.join(VARIABLES)}).",
        replacements=(Replacement(*source.span(site.node), new),),
        severity=Severity.INFO,
        requires=requires,
        action=f"Set {VARIABLES[-1]} to choose the device; without it, it is {site.number}.",
        evidence={"variables": list(VARIABLES), "default": site.number},
    )


def _left(source: Source, site: Site, reason: str) -> Proposal:
    return Proposal(
        rule=RULE,
        span=(source.span(site.node)[0], source.span(site.node)[1]),
        message=f"Device number {site.number} was not taken from the environment: {reason}.",
        severity=Severity.ADVICE,
        action="Choose the devices in one place and pass them on.",
    )


def _set_device(context: Context, number: int) -> Iterator[Proposal]:
    """Add a call of set_device at the entry of a script that has none."""
    source = context.source
    if any(node.attr.value in _SETTERS for node in source.nodes(cst.Attribute)) or _is_set_elsewhere(context):
        return
    begin = entry(source)
    if begin is None or _is_converted(source) or not _uses_cuda(source) or not _is_script(source, begin):
        return
    if is_spawning(source):
        yield Proposal(
            rule=RULE, span=source.span(begin.statement), severity=Severity.WARNING, confidence="likely",
            message="The processes that this file spawns share one environment, so no device was set for them.",
            action="Call torch.npu.set_device with the process's number first in the function that they run.",
        )  # fmt: skip
        return
    code = computed(source)
    if code:
        yield Proposal(
            rule=RULE, span=source.span(begin.statement), severity=Severity.ADVICE, confidence="likely",
            message=f"The device is never set, and its number is computed here (`{code}`), so it was not set first.",
            action="Call torch.npu.set_device with that number before anything uses a device.",
        )  # fmt: skip
        return
    setter = context.dialect.counterpart("torch.cuda.set_device").name
    available = context.dialect.counterpart("torch.cuda.is_available").name
    if setter is None or available is None:
        return
    setter, imports = spelled(source, begin.statement, setter)
    available, more = spelled(source, begin.statement, available)
    call = f"{setter}(int({_environment(number, context.quote)}))"
    start = source.span(begin.statement)[0]
    yield Proposal(
        rule=RULE,
        span=(start, start),
        message=f"The device is set from the environment before anything runs ({begin.place}).",
        replacements=(begin.insert(source, f"if {available}():", f"{source.module.default_indent}{call}"),),
        severity=Severity.INFO,
        requires=tuple(dict.fromkeys((*context.dialect.requires, "import os", *imports, *more))),
        action=f"Set {VARIABLES[-1]} to choose the device.",
        evidence={"variables": list(VARIABLES), "default": number},
    )


def _is_set_elsewhere(context: Context) -> bool:
    """Tell whether another rule of this conversion sets the device."""
    return context.options.distributed is not None or not {"JM158", "device-never-set"}.isdisjoint(
        context.options.enable
    )


def _is_converted(source: Source) -> bool:
    """Tell whether the file names an accelerator other than CUDA: what it has of CUDA was left on purpose."""
    return names_any(source, "torch.npu", "torch_npu", "torch.accelerator", "torch.get_device_module")


def _uses_cuda(source: Source) -> bool:
    if names_any(source, "torch.cuda"):
        return True
    if any(node.attr.value == "cuda" and source.called(node) is not None for node in source.methods):
        return True
    return any(text.is_bare or text.is_indexed for text in literals(source))


def _is_script(source: Source, begin: Entry) -> bool:
    """Tell whether the file is run: by its main guard, or because its module level trains or loops."""
    if begin.place != "module":
        return True
    for statement in source.module.body:
        if isinstance(statement, (cst.For, cst.While)):
            return True
    return any(
        callee_name(call) in ("backward", "parse_args")
        and source.enclosing(call, cst.FunctionDef, cst.ClassDef) is None
        for call in source.nodes(cst.Call)
    )
