"""Rules: every finding's code leads to one file that documents it.

A rule is a module with a docstring under fixed headings and a module-level `RULE = Rule(...)`. A rule that looks for
something itself also has `find`, which is given the room's subject and yields findings (see `RuleModule`).
`all_rules` lists every rule from an index that is generated from the sources, so that no rule and no room is imported.
A rule's own module needs `Rule` alone: the index and its registry are loaded when first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jumar.base.lazy import directory, loader
from jumar.base.rules.rule import CODE_PATTERN, HEADINGS, Find, Lifecycle, Rule, RuleModule

if TYPE_CHECKING:
    from jumar.base.rules.index import documentation, rules_of
    from jumar.base.rules.installed import all_rules, installed_modules, rule_named, summaries
    from jumar.base.rules.registry import Registry

__all__ = [
    "CODE_PATTERN",
    "HEADINGS",
    "Find",
    "Lifecycle",
    "Registry",
    "Rule",
    "RuleModule",
    "all_rules",
    "documentation",
    "installed_modules",
    "rule_named",
    "rules_of",
    "summaries",
]

_HOME = {
    **dict.fromkeys(("documentation", "rules_of"), "jumar.base.rules.index"),
    **dict.fromkeys(("all_rules", "installed_modules", "rule_named", "summaries"), "jumar.base.rules.installed"),
    "Registry": "jumar.base.rules.registry",
}

__getattr__ = loader(__name__, __all__, _HOME)
__dir__ = directory(__name__, __all__)
