"""Device, back-end and implementation words among the arguments of commands (JM121, JM129)."""

from __future__ import annotations

import re
from collections.abc import Iterator

from jumar.base.findings import Severity
from jumar.base.rules import Rule
from jumar.convert.facts.use import plain_key
from jumar.convert.files.draft.device_words import (
    Verdict,
    is_device_value,
    judge_name,
    judge_switch,
    judge_value,
    verdict_proposal,
)
from jumar.convert.files.draft.environment import NAME
from jumar.convert.files.shell.scope import Scope, runs_program, value_proposal
from jumar.convert.files.shell.words import Command, Word
from jumar.convert.model.edits import Proposal
from jumar.convert.rules.files import cuda_argument, cuda_switch_in_configuration

_PROGRAM = re.compile(
    r"python[\d.]*|torchrun|accelerate|deepspeed|torch\.distributed\S*|[\w./-]+\.py|fairseq-\w+|lightning|litgpt|mpirun",
)
_KEY_VALUE = re.compile(r"(-{0,2}[+~]{0,2}[A-Za-z_][\w.@/-]*)=")
_PROCESSES = ("nproc_per_node", "nproc")


def check(scope: Scope) -> Iterator[Proposal]:
    """Propose the NPU's words in command lines, or report that they were left."""
    named: set[str] = set()
    for command in scope.script.commands:
        if runs_program(command) or command.name == "export":
            yield from _options(scope, command, named)


def _options(scope: Scope, command: Command, named: set[str]) -> Iterator[Proposal]:
    """Judge the words of one command; `named` are the options reported for their name, which is done once."""
    words = command.words
    is_program = _is_program(command)
    for index, word in enumerate(words):
        key = _KEY_VALUE.match(word.text)
        if key is not None:
            if not (word.assigned and NAME.fullmatch(word.assigned[0])):
                yield from _valued(scope, word, key.group(1), word, key.end(), named if is_program else None)
        elif _is_option(word):
            value = words[index + 1] if index + 1 < len(words) and not _is_option(words[index + 1]) else None
            yield from _valued(scope, word, word.text, value, 0, named if is_program else None)
        elif is_device_value(word.text) and is_program and not _is_option(words[index - 1]) and index:
            yield _left(word, f"{word.text!r} is an argument of the program; what it stands for is not known.")


def _is_option(word: Word) -> bool:
    return len(word.text) > 1 and word.text[0] == "-" and not word.text[1].isdigit() and "=" not in word.text


def _is_program(command: Command) -> bool:
    if command.is_array or command.name.startswith("-"):
        return True
    return any(_PROGRAM.fullmatch(word.text.rpartition("/")[2]) or word.text.endswith(".py") for word in command.words)


def _valued(
    scope: Scope, option: Word, key: str, value: Word | None, start: int, named: set[str] | None
) -> Iterator[Proposal]:
    text = value.text[start:] if value is not None else None
    found = _value_proposal(scope, option, key, value, start, text)
    if found is not None:
        yield found
    elif named is not None and key.startswith("-") and plain_key(key) not in {*_PROCESSES, *named}:
        verdict = judge_name(key, text)
        if verdict is not None:
            named.add(plain_key(key))
            yield _of_option(option, verdict)


def _value_proposal(
    scope: Scope, option: Word, key: str, value: Word | None, start: int, text: str | None
) -> Proposal | None:
    switch = judge_switch(key, text)
    if switch is not None:
        rule = cuda_switch_in_configuration.RULE
        return value_proposal(rule, value, start, switch) if value is not None else _of_option(option, switch, rule)
    if value is None or text is None:
        return None
    if plain_key(key) in _PROCESSES:
        return _processes(scope, value, start, text)
    verdict = judge_value(key, text, scope.options, scope.project)
    return value_proposal(cuda_argument.RULE, value, start, verdict) if verdict is not None else None


def _processes(scope: Scope, value: Word, start: int, text: str) -> Proposal | None:
    if text not in ("gpu", "cuda"):
        return None
    new = "npu" if scope.is_npu() else "auto"
    message = f"torchrun is asked for a process on each GPU; {new} counts the accelerators that are there."
    return value_proposal(cuda_argument.RULE, value, start, Verdict(message=message, new=new))


def _of_option(option: Word, verdict: Verdict, rule: Rule = cuda_argument.RULE) -> Proposal:
    return verdict_proposal(rule, (option.start, option.end), verdict, None)


def _left(word: Word, message: str) -> Proposal:
    return Proposal(
        rule=cuda_argument.RULE, span=(word.start, word.end), message=message, severity=Severity.ADVICE,
        confidence="possible", action="Where it is the device, pass npu.",
    )  # fmt: skip
