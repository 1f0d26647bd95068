"""`docs/convert-rules.md`: every conversion rule with its example before and after."""

from __future__ import annotations

import difflib
from collections.abc import Iterator

from convert_tables.examples import Converted, converted, fenced, section
from jumar.base.rules import Rule, rules_of
from jumar.convert.rules.order import rules_by_code

_HEAD = """\
# Every rule of conversion, before and after

Made by `python scripts/build_convert_tables.py`; a test holds it current. What stands under *after* is what
`jumar convert` makes of what stands under *before*, with the option named there. `jumar rule CODE` prints a
rule's page, with its reasons and sources.

*safe* edits are made, *unsafe* ones with `--unsafe` (or `--enable CODE`); a rule without edits reports, and
*after* is then what its page advises. Rules marked *on request* are applied only where `--enable` names them.
"""

_GROUPS = (
    ("Devices, names and back ends", 101, 119),
    ("Files that are not Python", 120, 129),
    ("What depends on CUDA and stays", 130, 144),
    ("Similar interfaces and device numbers (`-sim`, `-s`)", 145, 149),
    ("Manual steps of the guide", 150, 164),
    ("Affinity: forms that run faster on an NPU", 165, 174),
    ("From one device to several (`distributed`)", 175, 184),
    ("Proof of a conversion (`--verify`)", 185, 189),
    ("The tool itself", 190, 199),
    ("Scripts of TensorFlow", 640, 669),
)


def page() -> str:
    """Return the page."""
    rules = sorted(rules_by_code().values(), key=lambda rule: rule.code)
    parts = [_HEAD, "## Contents\n", *_contents(rules)]
    for title, first, last in _GROUPS:
        own = [rule for rule in rules if first <= int(rule.code[2:]) <= last]
        if own:
            parts += [f"\n## {title}\n", *(_entry(rule) for rule in own)]
    return "\n".join(parts).rstrip("\n") + "\n"


def _contents(rules: list[Rule]) -> Iterator[str]:
    yield "| code | name | finds | edits | option |\n|---|---|---|---|---|"
    for rule in rules:
        summary = rule.summary.replace("|", "\\|")
        yield f"| [{rule.code}](rules/{rule.code}.md) | {rule.name} | {summary} | {_edits(rule)} | {_option(rule)} |"


def _edits(rule: Rule) -> str:
    return {None: "", "safe": "safe", "unsafe": "unsafe", "display-only": "shown"}[rule.safety]


def _option(rule: Rule) -> str:
    if rule in rules_of("convert.verify"):
        return "`--verify`"
    found = converted(rule.code)
    needs = found.needs if found is not None else f"--enable {rule.code}" if rule.opt_in else ""
    return f"`{needs}`" if needs else ""


def _entry(rule: Rule) -> str:
    facts = [rule.safety or "reports", *(["on request"] if rule.opt_in else [])]
    option = _option(rule)
    head = f"### {rule.code} {rule.name}\n\n{rule.summary} *{', '.join(facts)}*{f' · {option}' if option else ''}\n"
    found = converted(rule.code)
    if found is not None and found.applied:
        return f"{head}\n{_difference(found)}{_for_any_accelerator(found)}"
    _, before = fenced(section(rule, "Example"))
    _, after = fenced(section(rule, "Use instead"))
    language = "text" if found is None else found.language
    return f"{head}\nbefore:\n{_fence(language, before)}\nby hand:\n{_fence(language, after)}"


def _difference(found: Converted) -> str:
    """Return the example as one diff, which shows before and after line by line."""
    before, after = found.before.splitlines(), found.after.splitlines()
    lines = [line.rstrip() for line in difflib.ndiff(before, after) if not line.startswith("? ")]
    return _fence("diff", "\n".join(f"{line[0]}{line[2:]}" if len(line) > 1 else line for line in lines))


def _for_any_accelerator(found: Converted) -> str:
    """Return what `--target agnostic` makes of the example, where that is something else."""
    if found.needs == "distributed" or found.agnostic.rstrip() in (found.after.rstrip(), found.before.rstrip()):
        return ""
    return f"\nwith `--target agnostic`:\n{_fence(found.language, found.agnostic)}"


def _fence(language: str, text: str) -> str:
    return f"```{language}\n{text.rstrip()}\n```\n"
