"""`RuleContract`: what every rule promises. `ConversionRuleContract`: what a rule of conversion promises, too."""

from __future__ import annotations

import ast
import inspect
import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from jumar.base.findings import Finding
from jumar.base.rules import CODE_PATTERN, HEADINGS, Rule, RuleModule, documentation
from jumar.recording.schema import RUN_FILE

if TYPE_CHECKING:
    from jumar.convert.rules.subject.context import Context

_SUBJECTS = "123456789"


class DocumentedRuleContract:
    """The part of the contract that needs no example: the facts of a rule and its documentation."""

    documented: Rule
    """The rule."""

    def the_rule(self) -> Rule:
        """Return the rule under test."""
        return self.documented

    def test_its_code_and_name_have_the_fixed_form(self) -> None:
        """The first digit of the code tells the subject; the name is in lower case with hyphens."""
        rule = self.the_rule()
        assert CODE_PATTERN.fullmatch(rule.code)
        assert rule.code[-3] in _SUBJECTS
        assert re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", rule.name)

    def test_its_summary_is_one_sentence(self) -> None:
        """The summary stands in tables."""
        summary = self.the_rule().summary
        assert summary
        assert "\n" not in summary
        assert summary.endswith(".")

    def test_its_documentation_has_the_fixed_headings(self) -> None:
        """Each heading has a text. A first line that names a rule names this one."""
        rule = self.the_rule()
        doc = inspect.cleandoc(documentation(rule))
        named = CODE_PATTERN.match(doc)
        assert named is None or doc.startswith(f"{rule.code} {rule.name}.")
        parts = re.split(r"^## (.+)$", doc, flags=re.MULTILINE)
        assert tuple(parts[1::2]) == HEADINGS
        assert [heading for heading, text in zip(parts[1::2], parts[2::2], strict=True) if not text.strip()] == []


class RuleContract(DocumentedRuleContract):
    """A rule with its own `find`. Set `rule`, `bad` and `good`.

        class TestMyRule(RuleContract):
            rule = acme.rules.my_rule
            bad = [a_subject_with_the_pattern]
            good = [a_subject_without_it]

    Override `subject` where an example is not the subject itself.
    """

    rule: RuleModule[Any]
    """The module of the rule, with `RULE` and `find`."""
    bad: Sequence[Any] = ()
    """Examples in which the rule finds its pattern; at least one."""
    good: Sequence[Any] = ()
    """Examples in which it finds nothing; at least one, and a near miss is the best."""

    def the_rule(self) -> Rule:
        """Return the rule under test."""
        return self.rule.RULE

    def subject(self, example: Any) -> Any:
        """Return the subject that `find` is given for an example."""
        return example

    def found(self, example: Any) -> list[Any]:
        """Return what the rule finds in an example."""
        return list(self.rule.find(self.subject(example)))

    def test_it_finds_its_pattern_in_every_bad_example(self) -> None:
        """A rule that finds nothing is no rule."""
        assert self.bad, "give the contract at least one bad example"
        assert [example for example in self.bad if not self._findings(example)] == []

    def test_it_finds_nothing_in_any_good_example(self) -> None:
        """A finding in good code costs the user's trust."""
        assert self.good, "give the contract at least one good example"
        assert [found for example in self.good for found in self._findings(example)] == []

    def test_it_finds_the_same_twice(self) -> None:
        """A rule keeps no state and draws no random numbers."""
        for example in (*self.bad, *self.good):
            assert self.found(example) == self.found(example)

    def test_its_findings_are_complete(self) -> None:
        """A finding has the rule's code, a message of one line, an action or an edit, and evidence that JSON holds."""
        for found in (one for example in self.bad for one in self._findings(example)):
            assert found.code == self.the_rule().code
            assert found.message.strip()
            assert "\n" not in found.message
            assert found.action.strip() or found.edit is not None, "a finding says what to do, or has an edit"
            assert Finding.from_json(json.loads(json.dumps(found.to_json()))) == found

    def _findings(self, example: Any) -> list[Finding]:
        """Return the findings alone: `find` may also say what it could not check."""
        return [one for one in self.found(example) if isinstance(one, Finding)]


class RoomRuleContract(RuleContract):
    """A rule of assessment (x2xx), comparison (x3xx) or bottlenecks (x4xx), run by its room.

    An example is what the room takes: the path of a script or recording, or (reference, target) for a comparison.
    """

    def found(self, example: Any) -> list[Any]:
        """Return the rule's findings among those of the room."""
        from jumar.base.rules.installed import with_rule

        with with_rule(self.rule):
            return [one for one in self._room()(example) if one.code == self.the_rule().code]

    def _room(self) -> Callable[[Any], Sequence[Finding]]:
        from jumar.base.rules.installed import room_of

        room = room_of(self.the_rule())
        known = {"convert.assess": _assessed, "comparison": _compared, "advise.bottlenecks": _advised}
        assert room in known, "the code must be x2xx, x3xx or x4xx"
        return known[room]


def _assessed(path: Any) -> Sequence[Finding]:
    from jumar.convert.assess import assess_recording, assess_source

    return (assess_recording if (Path(path) / RUN_FILE).is_file() else assess_source)(path).findings


def _compared(pair: Any) -> Sequence[Finding]:
    from jumar.comparison import compare

    return compare(*pair).findings


def _advised(path: Any) -> Sequence[Finding]:
    from jumar.advise.bottlenecks import advise

    return advise(path).findings


class ConversionRuleContract(RuleContract):
    """A rule of conversion (code x1xx). An example is the text of a Python file.

    `find` is given a `Context` and yields a `Proposal` for each place. The edits of all proposals are made and the
    result must be Python in which the rule finds no more of what it edited.
    """

    target: ClassVar[Any] = "npu"
    """What the examples are converted for: `npu` or `agnostic`."""

    def subject(self, example: Any) -> Context:
        """Return the file as conversion gives it to `find`."""
        from jumar.convert import ConvertOptions
        from jumar.convert.rules.subject.context import Context
        from jumar.convert.syntax.source import parse

        options = ConvertOptions(target=self.target, enable=frozenset({self.the_rule().code}))
        return Context(parse(example.encode(), "example.py"), options)

    def test_a_place_and_a_replacement_lie_in_the_file(self) -> None:
        """Spans are places of the text, the start before the end."""
        for example in self.bad:
            for proposal in self.found(example):
                spans = [proposal.span, *((edit.start, edit.end) for edit in proposal.replacements)]
                assert all(0 <= start <= end <= len(example) for start, end in spans)

    def test_its_edits_fit_together_and_give_python(self) -> None:
        """The edits of one file do not overlap, and what they give parses."""
        for example in self.bad:
            ast.parse(self.edited(example))

    def test_what_it_edited_it_does_not_find_again(self) -> None:
        """Converting twice is the same as converting once."""
        for example in self.bad:
            edited = self.edited(example)
            if edited != example:
                assert [found for found in self.found(edited) if found.replacements] == []

    def test_its_trigger_lets_it_see_every_bad_example(self) -> None:
        """A file without a word of CUDA is read only where a rule's trigger is in it."""
        from jumar.convert import ConvertOptions
        from jumar.convert.model.project import ALONE
        from jumar.convert.model.step import Step
        from jumar.convert.rules.order import steps
        from jumar.convert.rules.subject.triggers import Triggers

        own = Step(self.the_rule().code, "", self.trigger())
        triggers = Triggers([*steps(ConvertOptions()), own])
        for example in self.bad:
            silent = triggers.silent(example.encode(), "example.py", ALONE)
            assert silent is not None, "no trigger is in the example: give the rule's module a TRIGGER"
            assert own.code not in silent

    def trigger(self) -> Any:
        """Return the rule's trigger: what stands in its module."""
        return getattr(self.rule, "TRIGGER", None)

    def edited(self, example: str) -> str:
        """Return the example with the edits of all proposals made."""
        from jumar.convert.model.edits import EditSet

        edits = EditSet()
        assert all(edits.accept(proposal.replacements) for proposal in self.found(example)), "two edits overlap"
        return edits.apply(example)

    def _findings(self, example: Any) -> list[Finding]:
        from jumar.convert.model.edits import to_finding

        text = self.subject(example).source.text
        return [to_finding(proposal, text, "example.py", applied=False) for proposal in self.found(example)]
