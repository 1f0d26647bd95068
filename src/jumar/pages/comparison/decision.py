"""The way through the decision flow, and what the shape of the difference points to."""

from __future__ import annotations

from jumar.accuracy.diagnosis import Answer, Diagnosis
from jumar.accuracy.rules import RULES
from jumar.report.page import FindingList, Section
from jumar.report.pictures import Mark, Question, Questions

MARKS: dict[str, Mark] = {"fine": "fine", "attention": "attention", "failed": "failed", "unknown": ""}
TITLES = {rule.code: rule.summary for rule in RULES if rule.code == "JM341"}


def decision(diagnosis: Diagnosis | None) -> Section | None:
    """Return the questions with their answers."""
    if diagnosis is None:
        return None
    asked = Questions(questions=[_question(answer) for answer in diagnosis.path])
    return Section(title="How it was found", blocks=[asked], collapsed=diagnosis.cause == "none")


def _question(answer: Answer) -> Question:
    return Question(
        question=answer.question,
        answer=answer.answer,
        evidence=answer.evidence,
        mark=MARKS[answer.state],
        decisive=answer.cause is not None,
    )


def hypothesis_list(diagnosis: Diagnosis | None) -> Section | None:
    """Return the hypotheses, the best first."""
    found = [finding for finding in diagnosis.findings if finding.code == "JM341"] if diagnosis is not None else []
    if not found:
        return None
    return Section(title="What the difference looks like", blocks=[FindingList(findings=found, titles=TITLES)])
