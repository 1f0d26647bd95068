from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from recording_builder import Run, mlp

from jumar.base.errors import UsageError
from jumar.base.findings import Severity
from jumar.base.rules import HEADINGS, documentation, rules_of
from jumar.comparison import CompareOptions, Comparison, compare
from jumar.recording import RunEnd
from jumar.show.compare.summary import summary_text


def codes(comparison: Comparison) -> list[str]:
    return [finding.code for finding in comparison.findings]


def test_equal_runs_agree() -> None:
    comparison = compare(mlp(Run()), mlp(Run()))
    assert (comparison.status, comparison.findings) == ("agree", ())
    assert comparison.num_operators == {"agree": 8}
    assert "8 operator calls in 1 step" in comparison.headline


@pytest.mark.parametrize("values", ["stats", "tensors"])
def test_the_first_operator_whose_inputs_agree_is_named_and_the_rest_inherit(values) -> None:
    target = mlp(Run(values=values), wrong={"layers.1": lambda out: out * 1.01, "layers.3": lambda out: out * 1.02})
    comparison = compare(mlp(Run(values=values)), target)
    first = comparison.first_divergence
    assert first is not None
    assert (first.name, first.module_path, first.step) == ("aten::mm", "layers.1", 0)
    assert first.error == pytest.approx(0.01, rel=0.02)
    later = [diff.status for diff in comparison.operators if diff.reference_seq and diff.reference_seq > 2]
    assert later[0] == "inherited"


def test_whole_tensors_give_every_figure() -> None:
    target = mlp(Run(values="tensors"), wrong={"layers.1": lambda out: out * 1.01})
    first = compare(mlp(Run(values="tensors")), target).first_divergence
    assert first is not None
    output = first.outputs[0]
    assert output.evidence == "tensors"
    assert output.cosine == pytest.approx(1.0)
    assert output.l2_relative == pytest.approx(0.01, rel=1e-4)
    assert output.max_relative is not None
    assert output.max_relative.difference == pytest.approx(0.01, rel=1e-2)


def test_a_fault_of_a_later_step_is_found_there_and_later_steps_are_left_out() -> None:
    reference, target = Run(), Run()
    for step in range(4):
        mlp(reference, step=step)
        mlp(target, step=step, wrong={"layers.2": lambda out: out + 0.1} if step == 2 else None)
    comparison = compare(reference, target)
    assert comparison.first_divergence is not None
    assert comparison.first_divergence.step == 2
    assert list(comparison.steps) == [0, 1, 2]
    assert "steps 3 to 3 were not compared" in comparison.notes[-1]
    assert list(compare(reference, target, options=CompareOptions(all_steps=True)).steps) == [0, 1, 2, 3]


def test_permuted_rows_are_seen_in_tensors_and_not_in_statistics() -> None:
    for values, expected in (("tensors", "layers.1"), ("stats", None)):
        target = mlp(Run(values=values), wrong={"layers.1": lambda out: out[::-1].copy()})
        first = compare(mlp(Run(values=values)), target).first_divergence
        assert (first and first.module_path) == expected


def test_a_difference_that_arises_in_an_unmatched_call_is_blamed_on_it() -> None:
    def run(factor: float | None) -> Run:
        made = Run()
        x = np.random.default_rng(0).standard_normal((8, 8)).astype(np.float32)
        hidden = made.call("aten::relu", [x], [np.maximum(x, 0)], path="a")
        if factor is not None:
            hidden = made.call("aten::mul.Tensor", [hidden], [hidden * np.float32(factor)], path="a", source="m.py:7")
        made.call("aten::tanh", [hidden], [np.tanh(hidden)], path="a")
        return made

    first = compare(run(None), run(1.01)).first_divergence
    assert first is not None
    assert (first.reference_name, first.target_name, first.source) == ("", "aten::mul.Tensor", "m.py:7")
    comparison = compare(run(None), run(1.0))
    assert (comparison.status, codes(comparison)) == ("differ", ["JM317", "JM311", "JM306"])


def dropout(seed: int, scaling: float, *, fused: bool) -> Run:
    """Dropout as the CPU runs it (three operators) or as an accelerator does (one)."""
    made = Run()
    x = np.random.default_rng(0).standard_normal((32, 32)).astype(np.float32)
    mask = np.random.default_rng(seed).random((32, 32)) < 0.9
    hidden = made.call("aten::tanh", [x], [np.tanh(x)], path="drop")
    kept = mask.astype(np.float32)
    scaled = kept * np.float32(scaling)
    if fused:
        out = made.call("aten::native_dropout", [hidden], [hidden * scaled, mask], path="drop")
    else:
        made.call("aten::bernoulli_.float", [np.zeros_like(x)], [kept], path="drop")
        made.call("aten::div_.Scalar", [kept], [scaled], path="drop")
        out = made.call("aten::mul.Tensor", [hidden, scaled], [hidden * scaled], path="drop")
    made.call("aten::sin", [out], [np.sin(out)], path="drop")
    return made


def test_a_random_operator_with_other_numbers_is_told_from_one_with_another_scale() -> None:
    reference = dropout(1, 1 / 0.9, fused=False)
    assert compare(reference, dropout(1, 1 / 0.9, fused=True)).status == "agree"
    unscaled = compare(reference, dropout(1, 1.0, fused=True)).first_divergence
    assert unscaled is not None
    assert unscaled.target_name == "aten::native_dropout"
    others = compare(reference, dropout(2, 1 / 0.9, fused=True))
    assert (others.status, codes(others)[0]) == ("incomparable", "JM307")


def test_an_input_that_changed_between_matched_calls_is_never_passed() -> None:
    def run(change: float) -> Run:
        made = Run()
        x = np.random.default_rng(0).standard_normal((8, 8)).astype(np.float32)
        hidden = made.call("aten::tanh", [x], [np.tanh(x)], path="a")
        hidden *= np.float32(change)  # written by something that was not recorded
        made.call("aten::sin", [hidden], [np.sin(hidden)], path="a")
        return made

    assert compare(run(1.0), run(1.0)).status == "agree"
    first = compare(run(1.0), run(1.5)).first_divergence
    assert first is not None
    assert first.name == "aten::sin"
    assert "differs already" in first.note


def test_other_data_end_the_search_with_the_seeds_as_the_likely_cause() -> None:
    comparison = compare(mlp(Run(settings={"seed": 0}), data_seed=1), mlp(Run(settings={"seed": 7}), data_seed=2))
    assert (comparison.status, comparison.first_divergence) == ("incomparable", None)
    assert codes(comparison)[0] == "JM302"
    assert "seed 0 against 7" in comparison.findings[0].message


def test_other_weights_end_the_search() -> None:
    comparison = compare(mlp(Run(), seed=0), mlp(Run(), seed=1))
    assert (comparison.status, codes(comparison)[0]) == ("incomparable", "JM303")


def test_losses_that_part_without_an_operator_to_blame_are_a_divergence() -> None:
    reference, target = mlp(Run()), mlp(Run())
    reference.loss(2.0, step=1)
    target.loss(2.5, step=1)
    comparison = compare(reference, target)
    assert (comparison.status, comparison.first_divergence) == ("diverge", None)
    assert "JM305" in codes(comparison)
    assert [pair.agrees for pair in comparison.losses] == [True, False]


def test_losses_may_drift_apart_as_training_amplifies_rounding() -> None:
    reference, target = Run(), Run()
    for step, difference in enumerate([1e-7, 5e-5, 4e-4, 3e-3]):
        mlp(reference, step=step)
        mlp(target, step=step)
        reference._rows[step, 0].pop()
        target._rows[step, 0].pop()
        reference.loss(2.0, step=step)
        target.loss(2.0 * (1 + difference), step=step)
    assert compare(reference, target).status == "agree"


def test_nan_on_one_side_is_named_and_nan_on_both_is_a_warning() -> None:
    def spoiled(out: np.ndarray) -> np.ndarray:
        out = out.copy()
        out[0, 0] = np.nan
        return out

    reference = mlp(Run())
    comparison = compare(reference, mlp(Run(), wrong={"layers.2": spoiled}))
    assert comparison.first_divergence is not None
    assert comparison.first_divergence.module_path == "layers.2"
    assert {"JM301", "JM309"} <= set(codes(comparison))
    both = compare(mlp(Run(), wrong={"layers.2": spoiled}), mlp(Run(), wrong={"layers.2": spoiled}))
    assert both.status == "agree"
    assert [(f.code, f.severity) for f in both.findings] == [("JM309", Severity.WARNING)]


def test_infinite_masks_of_both_runs_are_no_finding() -> None:
    def run() -> Run:
        made = Run()
        x = np.random.default_rng(0).standard_normal((4, 4)).astype(np.float32)
        masked = np.where(np.tril(np.ones((4, 4))) > 0, x, -np.inf).astype(np.float32)
        made.call("aten::masked_fill.Scalar", [x], [masked], arguments={"value": "-inf"})
        return made

    assert compare(run(), run()).findings == ()


def test_uninitialised_memory_is_not_compared_and_not_believed() -> None:
    def run(garbage: float) -> Run:
        made = Run()
        out = made.call("aten::empty.memory_format", [], [np.full(8, garbage, np.float32)])
        made.call("aten::fill_.Scalar", [out], [out], arguments={"value": 1.0})
        return made

    comparison = compare(run(1.0), run(7.0))
    statuses = {diff.name: diff.status for diff in comparison.operators}
    assert statuses["aten::empty.memory_format"] == "not-compared"


def test_coarser_dtypes_are_judged_in_their_own_units() -> None:
    def run(dtype: str) -> Run:
        made = Run()
        x = np.random.default_rng(0).standard_normal((64, 64)).astype(np.float32)
        rounded = (x.view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32) if dtype == "bfloat16" else x
        made.call("aten::tanh", [rounded], [np.tanh(rounded)], dtype=dtype)
        return made

    comparison = compare(run("float32"), run("bfloat16"))
    assert comparison.status == "agree", comparison.headline
    assert compare(run("float32"), run("float32")).status == "agree"


def test_settings_that_decide_are_warnings_and_others_information() -> None:
    first = mlp(Run(settings={"default_dtype": "float32", "num_threads": 1}))
    second = mlp(Run(settings={"default_dtype": "bfloat16", "num_threads": 2}))
    comparison = compare(first, second)
    assert [(f.code, f.severity.label) for f in comparison.findings] == [("JM304", "warning"), ("JM304", "info")]


def test_arguments_that_differ_without_effect_are_no_agreement() -> None:
    def run(eps: float) -> Run:
        made = Run()
        x = np.random.default_rng(0).standard_normal((8, 8)).astype(np.float32)
        made.call("aten::native_layer_norm", [x], [x], arguments={"eps": eps})
        return made

    comparison = compare(run(1e-5), run(1e-6))
    assert (comparison.status, codes(comparison)) == ("differ", ["JM317", "JM308"])
    assert "eps 1e-05 against 1e-06" in comparison.findings[0].message


def test_runs_without_a_common_step_or_value_cannot_be_compared() -> None:
    late = mlp(Run(), step=5)
    comparison = compare(mlp(Run()), late)
    assert comparison.status == "incomparable"
    assert "no step in common" in comparison.headline
    empty = Run()
    empty.empty_step(0)
    assert "no level in common" in compare(mlp(Run()), empty).headline


def test_recordings_without_values_are_never_said_to_agree() -> None:
    def run() -> Run:
        made = mlp(Run(values="none"))
        made.call("aten::slice.Tensor", [np.zeros((0, 4), np.float32)], [np.zeros((0, 4), np.float32)])
        rows = made._rows[0, 0]
        unknown = {"minimum": None, "maximum": None, "mean": None, "l2": None, "num_nan": None, "num_inf": None}
        for at, row in enumerate(rows):
            inputs = tuple(replace(tensor, **unknown) for tensor in row.inputs)
            rows[at] = replace(row, inputs=inputs, outputs=tuple(replace(t, **unknown) for t in row.outputs))
        return made

    comparison = compare(run(), run())
    assert comparison.status == "incomparable"
    assert "holds no values" in comparison.headline
    assert comparison.num_operators == {"not-compared": 9}


def test_recordings_of_different_programs_are_not_judged() -> None:
    def run(name: str) -> Run:
        made = Run()
        x = np.random.default_rng(0).standard_normal((8, 8)).astype(np.float32)
        x = made.call("aten::tanh", [x], [np.tanh(x)])
        for _ in range(5):
            x = made.call(name, [x], [x * np.float32(0.5)])
        return made

    comparison = compare(run("aten::sin"), run("aten::cos"))
    assert (comparison.status, comparison.first_divergence) == ("incomparable", None)
    assert "not runs of one program" in comparison.headline


def test_what_only_one_recording_has_is_said() -> None:
    reference, target = mlp(Run()), mlp(Run())
    mlp(target, step=1)
    target.warnings.append("rank 0 did not end: the run was killed after step 1")
    target.ends[0] = RunEnd(rank=0, status="finished", not_covered=("a compiled region of 12 operators",))
    comparison = compare(reference, target)
    assert comparison.status == "agree"
    notes = " ".join(comparison.notes)
    assert "steps [1] are in one recording only" in notes
    assert "killed after step 1" in notes
    assert "a compiled region" in notes
    assert "JM310" in codes(comparison)


def test_modules_are_compared_where_operators_were_not_recorded() -> None:
    def run(factor: float) -> Run:
        made = Run()
        x = np.random.default_rng(0).standard_normal((8, 8)).astype(np.float32)
        for name in ("a", "b"):
            x = made.call("Linear", [x], [x * np.float32(factor if name == "b" else 1)], path=name, kind="module")
        return made

    comparison = compare(run(1.0), run(1.5))
    assert comparison.first_divergence is not None
    assert (comparison.first_divergence.kind, comparison.first_divergence.module_path) == ("module", "b")


def test_every_rank_is_compared() -> None:
    def run(wrong: float) -> Run:
        made = Run()
        x = np.random.default_rng(0).standard_normal((8, 8)).astype(np.float32)
        for rank, factor in ((0, 1.0), (1, wrong)):
            made.call("aten::tanh", [x], [np.tanh(x) * np.float32(factor)], rank=rank)
        return made

    first = compare(run(1.0), run(1.1)).first_divergence
    assert first is not None
    assert first.rank == 1


def test_kept_operators_are_bounded_and_counts_are_not() -> None:
    reference, target = Run(), Run()
    for step in range(3):
        mlp(reference, step=step)
        mlp(target, step=step)
    comparison = compare(reference, target, options=CompareOptions(max_operators=10))
    assert len(comparison.operators) <= 10
    assert comparison.num_operators == {"agree": 24}


def test_the_result_is_json() -> None:
    target = mlp(Run(), wrong={"layers.3": lambda out: np.full_like(out, np.inf)})
    text = json.dumps(compare(mlp(Run()), target).to_json(), allow_nan=False)
    assert json.loads(text)["first_divergence"]["module_path"] == "layers.3"


def test_the_summary_starts_with_the_answer_and_has_at_most_15_lines() -> None:
    target = mlp(Run(device="npu (emulated)"), wrong={"layers.1": lambda out: out * 1.01})
    target.warnings.extend(f"warning {n}" for n in range(30))
    lines = summary_text(compare(mlp(Run()), target)).splitlines()
    assert lines[0].startswith("The runs diverge first at aten::mm in layers.1")
    assert len(lines) <= 15
    assert all(len(line) <= 120 for line in lines)


def test_every_rule_is_documented_under_the_headings() -> None:
    rules = rules_of("comparison")
    assert {f"JM{number}" for number in range(301, 316)} <= {rule.code for rule in rules}
    assert {rule.code[:3] for rule in rules} == {"JM3"}
    for rule in rules:
        lines = documentation(rule).splitlines()
        assert [line[3:] for line in lines if line.startswith("## ")] == list(HEADINGS), rule.code


def masked_attention(least: float, *, device: str = "cpu", values: str = "stats", wrong: float = 1.0) -> Run:
    """Return scores that are masked with `least`, and what a softmax makes of them."""
    run = Run(device=device, values=values)
    scores = np.random.default_rng(0).standard_normal((8, 8)).astype(np.float32)
    sentinel = run.call("aten::scalar_tensor", [], [np.asarray(least, np.float32)], arguments={"s": least})
    above = np.triu(np.ones((8, 8), bool), 1)
    mask = run.call("aten::where.self", [above, sentinel], [np.where(above, sentinel, np.float32(0))])
    masked = run.call("aten::add.Tensor", [scores, mask], [scores + mask])
    shares = np.exp(masked - masked.max(-1, keepdims=True))
    shares = (wrong * shares / shares.sum(-1, keepdims=True)).astype(np.float32)
    run.call("aten::_softmax", [masked], [shares])
    return run


@pytest.mark.parametrize("values", ["stats", "tensors"])
def test_masks_of_minus_infinity_and_of_the_least_number_agree(values) -> None:
    least = float(np.finfo(np.float32).min)
    sides = masked_attention(-np.inf, values=values), masked_attention(least, device="npu", values=values)
    for comparison in (compare(*sides), compare(*reversed(sides))):
        assert comparison.status == "agree", comparison.headline
        assert comparison.num_operators == {"not-compared": 3, "agree": 1}


def test_a_softmax_that_differs_behind_such_masks_is_seen() -> None:
    least = float(np.finfo(np.float32).min)
    comparison = compare(masked_attention(-np.inf), masked_attention(least, device="npu", wrong=1.01))
    assert comparison.status == "diverge"
    assert comparison.first_divergence.name == "aten::_softmax"


def test_recordings_of_other_ranks_are_told_how_to_be_paired() -> None:
    sides = Run(), Run(device="npu")
    x = np.ones((2, 2), np.float32)
    for rank, run in zip((0, 3), sides, strict=True):
        run.call("aten::mul.Tensor", [x], [x * 2], rank=rank)
    comparison = compare(*sides)
    assert comparison.status == "incomparable"
    assert "no rank in common (reference 0, target 3)" in comparison.headline
    assert "--ranks 0:3" in comparison.findings[0].action
    assert compare(*sides, options=CompareOptions(rank_pairs=((0, 3),))).status == "agree"
    with pytest.raises(UsageError, match=r"the target .* holds no rank 0; name one of \[3\]"):
        compare(*sides, options=CompareOptions(rank_pairs=((0, 0),)))


def two_frameworks(*, wrong: float = 0.0, with_modules: bool = True) -> tuple[Run, Run]:
    """Return the same two layers as PyTorch's and as MindSpore's modules and operators; the second one `wrong`."""
    generator = np.random.default_rng(0)
    start = generator.standard_normal((4, 8)).astype(np.float32)
    hidden = start @ generator.standard_normal((8, 8)).astype(np.float32)
    last = np.maximum(hidden, 0) @ generator.standard_normal((8, 8)).astype(np.float32)
    runs = []
    for linear, product, error in (("Linear", "aten::addmm", 0.0), ("Dense", "ms::MatMul", wrong)):
        run = Run()
        values = [start, hidden, last * (1 + error)]
        for path, (given, made) in zip(("first", "second"), pairwise(values), strict=True):
            run.call(product, [given], [made], path=path)
            if with_modules:
                run.call(linear, [given], [made], path=path, kind="module")
        runs.append(run)
    return runs[0], runs[1]


def test_runs_of_two_frameworks_are_compared_by_modules_and_the_headline_says_so() -> None:
    comparison = compare(*two_frameworks())
    assert comparison.status == "agree"
    assert "2 module calls in 1 step" in comparison.headline
    assert "no operator has a name in both runs, so operators were not compared one by one" in comparison.headline


def test_a_fault_between_two_frameworks_is_named_by_its_module() -> None:
    first = compare(*two_frameworks(wrong=0.01)).first_divergence
    assert first is not None
    assert (first.name, first.module_path) == ("Linear / Dense", "second")
    assert first.error == pytest.approx(0.01, rel=0.02)


def test_operators_without_a_common_name_and_without_modules_are_no_agreement() -> None:
    comparison = compare(*two_frameworks(with_modules=False))
    assert comparison.status != "agree"
