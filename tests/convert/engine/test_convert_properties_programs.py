"""Properties of conversion over generated programs with CUDA idioms, both targets, and any set of options."""

from __future__ import annotations

import io
import tokenize
from pathlib import Path

from generated_programs import compiles, programs
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from recorded_programs import run

from jumar.convert import Conversion, ConvertOptions, Outcome, Success, convert_source
from jumar.convert.rules.order import rules_by_code
from jumar.convert.verify import verify

OPT_IN = sorted(rule.code for rule in rules_by_code().values() if rule.opt_in)
OPTIONS = st.builds(
    ConvertOptions,
    target=st.sampled_from(["npu", "agnostic"]),
    unsafe=st.booleans(),
    similar=st.booleans(),
    device_from_environment=st.booleans(),
)
EVERY_OPTION = st.builds(
    ConvertOptions,
    target=st.sampled_from(["npu", "agnostic"]),
    unsafe=st.booleans(),
    similar=st.booleans(),
    device_from_environment=st.booleans(),
    enable=st.frozensets(st.sampled_from(OPT_IN)) if OPT_IN else st.just(frozenset()),
).filter(lambda options: not (options.similar and "JM157" in options.enable))
# JM157 makes fused optimizers of PyTorch's, also of those that -sim writes: the guide tells to take two steps.
PHASES = [Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink]  # explaining a failure would take minutes
# The same programs in every run: a new one is looked for by turning `derandomize` off.
SETTINGS = settings(
    derandomize=True,
    deadline=None,
    phases=PHASES,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)


def convert(program: bytes, options: ConvertOptions) -> Outcome:
    return convert_source(program, "a.py", options)


def comments(program: bytes) -> list[str]:
    tokens = tokenize.generate_tokens(io.StringIO(program.decode()).readline)
    return [token.string for token in tokens if token.type == tokenize.COMMENT]


def is_subsequence(few: list[str], many: list[str]) -> bool:
    rest = iter(many)
    return all(item in rest for item in few)


@settings(SETTINGS, max_examples=80)
@given(programs(), OPTIONS)
def test_the_same_expressions_are_evaluated_in_the_same_order(program: bytes, options: ConvertOptions) -> None:
    before, after = run(program), run(convert(program, options).after)
    if before[-1:] == ["NameError"]:  # a name that the original lacked may have come with an added import
        before, after = before[:-1], after[: len(before) - 1]
    assert after == before


@settings(SETTINGS, max_examples=60)
@given(programs(), EVERY_OPTION)
def test_a_conversion_parses_and_keeps_every_comment(program: bytes, options: ConvertOptions) -> None:
    after = convert(program, options).after
    assert compiles(after.decode())
    assert is_subsequence(comments(program), comments(after))


@settings(SETTINGS, max_examples=60)
@given(programs(), EVERY_OPTION)
def test_converting_twice_is_converting_once(program: bytes, options: ConvertOptions) -> None:
    after = convert(program, options).after
    assert convert(after, options).after == after


@settings(SETTINGS, max_examples=60)
@given(programs(), EVERY_OPTION)
def test_verify_finds_nothing(program: bytes, options: ConvertOptions) -> None:
    found = verify(Conversion(Path(), (convert(program, options),)), options)
    assert [f"{finding.code} {finding.where}: {finding.message}" for finding in found] == []


@settings(SETTINGS, max_examples=40)
@given(programs(cuda=False), OPTIONS)
def test_a_program_without_cuda_stays_byte_for_byte(program: bytes, options: ConvertOptions) -> None:
    assert convert(program, options).after == program


@settings(SETTINGS, max_examples=60)
@given(programs(), OPTIONS, st.data())
def test_verify_catches_a_changed_byte(program: bytes, options: ConvertOptions, data: st.DataObject) -> None:
    outcome = convert(program, options)
    if not isinstance(outcome, Success) or not outcome.changed:
        return
    text = outcome.after.decode()
    at = data.draw(st.integers(0, len(text) - 1))
    other = data.draw(st.sampled_from("xy _"))
    broken = text[:at] + other + text[at + 1 :]
    if broken == text:
        return
    changed = Success(path="a.py", before=program, after=broken.encode(), findings=outcome.findings)
    assert verify(Conversion(Path(), (changed,)), options) != []
