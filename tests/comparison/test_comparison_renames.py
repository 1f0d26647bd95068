"""Names that differ: the file that says so, and trees of modules that are recognised without one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from recording_builder import Run

from jumar.base.errors import UsageError
from jumar.comparison import CompareOptions, Comparison, compare
from jumar.comparison.align.modules import match_modules
from jumar.comparison.model.renames import parse_renames, read_renames, rename_lines

Names = Callable[[int], str]


@pytest.mark.parametrize(
    ("line", "path", "expected"),
    [
        ("blocks -> layers", "blocks.0.fc1", "layers.0.fc1"),
        ("blocks -> layers", "blocks2.0", "blocks2.0"),
        ("blocks.* -> layers.*", "blocks.7.fc1", "layers.7.fc1"),
        ("**.attn -> **.attention", "a.b.attn.q", "a.b.attention.q"),
        (". -> network", "head", "network.head"),
        (". -> network", "", "network"),
        ("model -> .", "model.head", "head"),
        ("model -> .", "model", ""),
        (r"/h\.(\d+)/ -> layers.\1", "h.3.fc", "layers.3.fc"),
        ("a.b -> a.c   # a comment", "a.b.d", "a.c.d"),
        ("a → b", "a.x", "b.x"),
    ],
)
def test_a_module_path_is_renamed_up_to_the_end_of_a_component(line, path, expected) -> None:
    assert parse_renames(line).module(path) == expected


def test_the_first_rename_that_fits_counts() -> None:
    renames = parse_renames("a.b -> x\na -> y")
    assert (renames.module("a.b.c"), renames.module("a.c")) == ("x.c", "y.c")


def test_operators_and_parameters_are_renamed_from_the_target_to_the_reference() -> None:
    renames = parse_renames("operator aten::gelu -> vendor::fast_gelu\nparameter weight -> w_*\n")
    assert renames.operator("vendor::fast_gelu.default") == "aten::gelu"
    assert (renames.parameter("w_1"), renames.parameter("bias")) == ("weight", "bias")


def test_toml_says_the_same_as_lines() -> None:
    toml = '[modules]\n"blocks.*" = "layers.*"\n[parameters]\nweight = "gamma"\n'
    assert parse_renames(toml) == parse_renames("blocks.* -> layers.*\nparameter weight -> gamma\n")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a -> b\nnonsense", "line 2"),
        ("a.* -> b", "same wildcards"),
        (r"/h(/ -> x", "no valid pattern"),
        (r"/h/ -> \1", "uses group 1"),
        ("layer a -> b", "no kind of name"),
        ("[module", "TOML"),
        ("[colours]\na = 'b'", "no table of renames"),
        ("[modules]\na = 1", "a name is text"),
    ],
)
def test_errors_name_the_line_and_the_rule(text, words) -> None:
    with pytest.raises(UsageError, match=words):
        parse_renames(text, "renames.txt")


def test_a_file_that_cannot_be_read_is_one_sentence(tmp_path) -> None:
    with pytest.raises(UsageError, match="cannot be read"):
        read_renames(tmp_path / "missing.txt")


PATHS = st.lists(st.text("abc", min_size=1, max_size=3), min_size=1, max_size=3).map(".".join)


@given(st.lists(st.tuples(PATHS, PATHS), min_size=1, max_size=4))
def test_the_file_that_is_printed_renames_each_path_to_its_partner(pairs) -> None:
    first = dict(reversed(pairs))
    text = rename_lines(first.items())
    for mine, theirs in first.items():
        if not any(mine.startswith(f"{other}.") for other in first):
            assert parse_renames(text).module(mine) == theirs


def network(*, names: Sequence[str] = ("blocks", "fc", "act"), top: str = "", seeds: Sequence[int] = (0, 1, 2)) -> Run:
    """A stack of equal blocks; `seeds` says with which numbers the weights of each are drawn."""
    run = Run()
    hidden = np.random.default_rng(99).standard_normal((16, 8)).astype(np.float32)
    for layer, seed in enumerate(seeds):
        weight = (np.random.default_rng(seed).standard_normal((8, 8)) / 3).astype(np.float32)
        path = f"{top}{names[0]}.{layer}"
        out = run.call("aten::mm", [hidden, weight], [hidden @ weight], path=f"{path}.{names[1]}")
        hidden = run.call("aten::tanh", [out], [np.tanh(out)], path=f"{path}.{names[2]}")
    head = np.random.default_rng(7).standard_normal((8, 4)).astype(np.float32)
    run.call("aten::mm", [hidden, head], [hidden @ head], path=f"{top}head")
    return run


def codes(comparison: Comparison) -> list[str]:
    return [finding.code for finding in comparison.findings]


def test_a_renamed_tree_is_recognised_compared_and_one_finding_with_the_file() -> None:
    comparison = compare(network(), network(names=("layers", "linear", "gelu")))
    assert (comparison.status, codes(comparison)) == ("agree", ["JM312"])
    assert comparison.num_operators == {"agree": 7}
    lines = str(comparison.findings[0].evidence["renames"])
    assert lines.splitlines()[0] == "blocks -> layers"
    again = compare(
        network(), network(names=("layers", "linear", "gelu")), options=CompareOptions(renames=parse_renames(lines))
    )
    assert again.status == "agree"


def test_a_file_of_renames_leaves_nothing_to_report(tmp_path: Path) -> None:
    path = tmp_path / "renames.txt"
    path.write_text("blocks.*.fc -> layers.*.linear\nblocks.*.act -> layers.*.gelu\nblocks -> layers\n")
    options = CompareOptions(renames=read_renames(path))
    comparison = compare(network(), network(names=("layers", "linear", "gelu")), options=options)
    assert (comparison.status, codes(comparison)) == ("agree", [])


@pytest.mark.parametrize("tops", [("", "network."), ("model.", ""), ("", "a.b.")])
def test_a_wrapper_of_either_side_is_taken_off(tops) -> None:
    comparison = compare(network(top=tops[0]), network(top=tops[1]))
    assert (comparison.status, set(codes(comparison))) == ("agree", {"JM312"})
    assert comparison.num_operators == {"agree": 7}


@pytest.mark.parametrize("at", [0, 5, 12, 24])
def test_an_extra_layer_among_equal_ones_is_named_by_its_parameters(at) -> None:
    seeds = [*range(at), 1000, *range(at, 24)]
    comparison = compare(network(seeds=range(24)), network(seeds=seeds))
    assert comparison.first_divergence is not None
    assert comparison.first_divergence.status == "diverge"
    finding = next(finding for finding in comparison.findings if finding.code == "JM311")
    assert (finding.evidence["kind"], finding.where.module_path) == ("inserted modules", f"blocks.{at}")
    assert comparison.first_divergence.module_path.startswith(f"blocks.{at}")
    assert not comparison.unmatched_reference
    assert {call.module_path.split(".")[1] for call in comparison.unmatched_target} == {str(at)}


def test_a_missing_layer_is_named_by_its_parameters() -> None:
    comparison = compare(network(seeds=range(12)), network(seeds=[*range(4), *range(5, 12)]))
    finding = next(finding for finding in comparison.findings if finding.code == "JM311")
    assert (finding.evidence["kind"], finding.where.module_path) == ("removed modules", "blocks.4")


def test_parameters_of_other_frameworks_have_pytorchs_names() -> None:
    names = match_modules([], []).names(1)
    assert [names.parameter("norm", name) for name in ("gamma", "beta", "moving_mean", "moving_variance", "x")] == [
        "weight",
        "bias",
        "running_mean",
        "running_var",
        "x",
    ]


def test_a_fault_in_a_renamed_tree_is_named_in_the_reference_s_words() -> None:
    target = network(names=("layers", "linear", "gelu"), seeds=[0, 1, 2])
    wrong = Run()
    hidden = np.random.default_rng(99).standard_normal((16, 8)).astype(np.float32)
    for layer in range(3):
        weight = (np.random.default_rng(layer).standard_normal((8, 8)) / 3).astype(np.float32)
        product = hidden @ weight * np.float32(1.01 if layer == 1 else 1.0)
        out = wrong.call("aten::mm", [hidden, weight], [product], path=f"layers.{layer}.linear")
        hidden = wrong.call("aten::tanh", [out], [np.tanh(out)], path=f"layers.{layer}.gelu")
    assert compare(network(), target).status == "agree"
    first = compare(network(), wrong).first_divergence
    assert first is not None
    assert (first.module_path, first.name) == ("blocks.1.fc", "aten::mm")
