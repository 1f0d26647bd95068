"""Rules: every finding's code leads to one file that documents it.

A rule is a module with a docstring under fixed headings and a module-level `RULE = Rule(...)`. A rule that looks for
something itself also has `find`, which is given the room's subject and yields findings (see `RuleModule`).
`all_rules` lists every rule from an index that is generated from the sources, so that no rule and no room is imported.
"""

from __future__ import annotations

from jumar.base.rules.index import all_rules, documentation, installed_rules, rule_named, rules_of, summaries
from jumar.base.rules.registry import Registry
from jumar.base.rules.rule import CODE_PATTERN, HEADINGS, Find, Lifecycle, Rule, RuleModule

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
    "installed_rules",
    "rule_named",
    "rules_of",
    "summaries",
]
