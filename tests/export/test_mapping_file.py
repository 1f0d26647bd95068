"""The map file: what is written is read, edits count, bad edits are refused with their line."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from jumar.base.errors import InputError
from jumar.export.mapping.apply import apply_map
from jumar.export.mapping.entries import GUESSED, MATCHED, Entry
from jumar.export.mapping.file import parse_map, read_map, text_of_map
from jumar.export.mapping.sides.side import of_state
from jumar.export.mapping.transforms import Step, apply_steps, inverse, parse_steps, text_of, tidy

NAMES = st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), min_size=1, max_size=12)
STEPS = st.sampled_from([
    "", "transpose", "hwio_to_oihw", "permute 1 0", "reshape 4 3", "split 1 of 3 along 0", "transpose; concat along 0",
    "gates icfo to ifco along 0", "columns hwc to chw 2 3 3", "add",
])  # fmt: skip
ENTRIES = st.builds(
    lambda target, sources, steps, status, score, why: Entry(
        target=target, sources=tuple(sources), steps=parse_steps(steps), status=status, score=score, why=why
    ),
    NAMES, st.lists(NAMES, min_size=1, max_size=3), STEPS, st.sampled_from([MATCHED, GUESSED]), st.floats(0, 1), NAMES,
)  # fmt: skip


@given(st.lists(ENTRIES, max_size=5, unique_by=lambda entry: entry.target), st.lists(NAMES, max_size=3, unique=True))
def test_a_map_comes_back_as_it_was_written(entries: list[Entry], unused: list[str]) -> None:
    taken = {entry.target for entry in entries}
    missing = {name: ("[3]", (name,)) for name in ["left \n over", "a = 'b'"] if name not in taken}
    found = parse_map(text_of_map(entries, missing, {name: (name,) for name in unused}))
    assert found.entries == tuple(entries)
    assert found.dropped == tuple(unused)


@given(STEPS)
def test_steps_are_written_as_they_are_read(text: str) -> None:
    assert parse_steps(text_of(parse_steps(text))) == parse_steps(text)


@given(st.permutations(range(4)), st.permutations(range(4)))
def test_steps_are_undone(first: list[int], second: list[int]) -> None:
    steps = (Step("permute", tuple(first)), Step("transpose"), Step("permute", tuple(second)), Step("reshape", (6, 20)))
    tensor = torch.randn(2, 3, 4, 5)
    made = apply_steps(steps, [tensor])
    assert torch.equal(apply_steps(inverse(steps, (2, 3, 4, 5)), [made]), tensor)
    assert torch.equal(apply_steps(tidy(steps), [tensor]), made)


def test_gates_and_columns_are_those_of_the_definition() -> None:
    gates = torch.arange(4).repeat_interleave(2)
    assert apply_steps(parse_steps("gates icfo to ifco along 0"), [gates]).tolist() == [0, 0, 2, 2, 1, 1, 3, 3]
    image = torch.randn(2, 3, 4, 5)  # N C H W
    matrix = torch.randn(6, 60)
    rows = image.permute(0, 2, 3, 1).flatten(1)  # as Keras flattens
    turned = apply_steps(parse_steps("columns hwc to chw 3 4 5"), [matrix])
    assert torch.allclose(image.flatten(1) @ turned.T, rows @ matrix.T, atol=1e-5)


GOOD = 'version = 1\n[map]\n"x" = { from = "a" }\n"y" = "b"\n"z" = { from = ["a", "a"], how = "concat along 0" }\n'


def test_edits_count() -> None:
    source = of_state("A", {"a": torch.arange(6.0).reshape(2, 3), "b": torch.ones(3)})
    target = of_state("B", {"x": torch.zeros(3, 2), "y": torch.zeros(3), "z": torch.zeros(4, 3), "own": torch.ones(1)})
    text = GOOD.replace('from = "a" }', 'from = "a", how = "transpose", why = "mine" }')
    applied = apply_map(parse_map(text), source, target)
    assert applied.state["x"].tolist() == [[0, 3], [1, 4], [2, 5]]
    assert applied.state["z"].shape == (4, 3)
    assert applied.kept == ("own",)


@pytest.mark.parametrize(
    ("old", "new", "line", "words"),
    [
        ('{ from = "a" }', '{ from = "a" ', 3, "TOML"),
        ('{ from = "a" }', "3", 3, "got 3"),
        ('{ from = "a" }', '{ form = "a" }', 3, "'form'"),
        ('{ from = "a" }', "{ from = 5 }", 3, "got 5"),
        ('{ from = "a" }', '{ from = "a", how = "turn" }', 3, "'turn'"),
        ('{ from = "a" }', '{ from = "a", how = "permute 0 0" }', 3, "each dimension once"),
        ('{ from = "a" }', '{ from = "a", how = "gates ifgo to ifxo along 0" }', 3, "same letters"),
        ('{ from = "a" }', '{ from = "a", status = "sure" }', 3, "'sure'"),
        ('{ from = "a" }', '{ from = "a", score = 7 }', 3, "got 7"),
        ('{ from = "a" }', '{ how = "transpose" }', 3, "zeros"),
        ('"b"', '"a"', 4, "[3]"),
        ('"b"', '"none"', 4, "'none'"),
        ('"y"', '"nothing"', 4, "no such tensor"),
        (', how = "concat along 0"', "", 5, "2 sources"),
        ("version = 1", "version = 9", 1, "9"),
        ("version = 1", "version = 1\nother = 2", 2, "'other'"),
        ('"y" = "b"', '"x" = "b"', 4, "TOML"),
    ],
)
def test_bad_edits_are_refused_with_their_line(old: str, new: str, line: int, words: str) -> None:
    source = of_state("A", {"a": torch.zeros(2, 3), "b": torch.ones(3)})
    target = of_state("B", {"x": torch.zeros(2, 3), "y": torch.zeros(3), "z": torch.zeros(4, 3)})
    with pytest.raises(InputError) as caught:
        apply_map(parse_map(GOOD.replace(old, new), "names.toml"), source, target)
    message = str(caught.value)
    assert "names.toml" in message
    assert f"line {line}" in message
    assert words in message
    assert "\n" not in message


@pytest.mark.parametrize("content", [b"\xff\xfe", b"[" * 200_000, b"version = 1\nmap = 3", b"PK\x03\x04"])
def test_what_is_no_map_is_refused(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "map.toml"
    path.write_bytes(content)
    with pytest.raises(InputError, match="map"):
        read_map(path)
