from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jumar.comparison.align.align import align
from jumar.comparison.align.sequences import MOST_EDITS
from jumar.comparison.model.calls import Call, calls_of, plain_path
from jumar.operators import canonical_name
from jumar.recording import CallRow, TensorRow


def tensor(name: str, *shape: int) -> TensorRow:
    return TensorRow(
        name=name, shape=shape, dtype="float32", device="cpu", stride=(), storage_offset=0, contiguous=True
    )


def row(
    name: str,
    seq: int = 0,
    path: str = "net",
    phase: str = "forward",
    shape: tuple[int, ...] = (2,),
    arguments: str = "",
) -> CallRow:
    return CallRow(
        step=0,
        rank=0,
        seq=seq,
        kind="op",
        phase=phase,  # type: ignore[arg-type]
        module_path=path,
        module_type="",
        name=name,
        occurrence=seq,
        arguments=arguments,
        inputs=(tensor("input.0", *shape),),
        outputs=(tensor("output.0", *shape),),
    )


def calls(names: Sequence[str], **settings) -> list[Call]:
    return calls_of(row(name, seq, **settings) for seq, name in enumerate(names))


def shown(first: Sequence[Call], second: Sequence[Call]) -> list[tuple[str | None, str | None]]:
    return [
        (pair.reference and pair.reference.row.name, pair.target and pair.target.row.name)
        for pair in align(first, second)
    ]


def test_an_inserted_call_moves_no_other_pair() -> None:
    first, second = calls(["a", "b", "c", "b", "d"]), calls(["a", "b", "x", "c", "b", "d"])
    assert shown(first, second) == [("a", "a"), ("b", "b"), (None, "x"), ("c", "c"), ("b", "b"), ("d", "d")]


def test_a_removed_call_stays_alone() -> None:
    assert shown(calls(["a", "b", "c"]), calls(["a", "c"])) == [("a", "a"), ("b", None), ("c", "c")]


def test_scalar_arguments_tell_which_of_equal_calls_is_the_extra_one() -> None:
    mul = "aten::mul.Tensor"
    first = calls_of([row(mul, 0, arguments='{"other": 2.0}'), row(mul, 1, arguments='{"other": 3.0}')])
    second = calls_of(
        [
            row(mul, 0, arguments='{"other": 1.01}'),
            row(mul, 1, arguments='{"other": 2.0}'),
            row(mul, 2, arguments='{"other": 3.0}'),
        ]
    )
    alone = [pair.target for pair in align(first, second) if pair.reference is None]
    assert [call.row.seq for call in alone if call is not None] == [0]


def test_calls_with_other_arguments_or_shapes_are_paired_when_nothing_fits_better() -> None:
    first = calls_of([row("aten::gelu", 0, arguments='{"approximate": "none"}')])
    second = calls_of([row("aten::gelu", 0, arguments='{"approximate": "tanh"}')])
    assert shown(first, second) == [("aten::gelu", "aten::gelu")]
    assert shown(calls(["aten::sum"], shape=(3,)), calls(["aten::sum"], shape=(4,))) == [("aten::sum", "aten::sum")]


def test_variants_of_one_calculation_are_paired() -> None:
    names = ["aten::convolution_overrideable", "aten::cudnn_batch_norm", "aten::relu_", "aten::_softmax"]
    others = ["aten::convolution", "aten::native_batch_norm", "aten::relu", "aten::softmax.int"]
    assert shown(calls(names), calls(others)) == list(zip(names, others, strict=True))


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("aten::_foreach_add_.List", "add"),
        ("aten::add_.Tensor", "add"),
        ("aten::__and__.Tensor", "__and__"),
        ("aten::_scaled_dot_product_flash_attention_for_cpu", "scaled_dot_product_attention"),
        ("npu::npu_fusion_attention", "scaled_dot_product_attention"),
    ],
)
def test_canonical_names(name, expected) -> None:
    assert canonical_name(name) == expected


def test_items_of_a_list_operator_are_paired_with_single_calls() -> None:
    foreach = CallRow(
        step=0,
        rank=0,
        seq=0,
        kind="op",
        phase="optimizer",
        module_path="",
        module_type="",
        name="aten::_foreach_mul_.Scalar",
        occurrence=0,
        arguments='{"scalar": 0.9}',
        inputs=(tensor("input.0.0", 2), tensor("input.0.1", 5)),
        outputs=(tensor("output.0.0", 2), tensor("output.0.1", 5)),
    )
    single = [
        row("aten::mul_.Tensor", seq, path="", phase="optimizer", shape=shape, arguments='{"other": 0.9}')
        for seq, shape in enumerate([(5,), (2,)])
    ]
    pairs = align(calls_of(single), calls_of([foreach]))
    assert [(p.reference.token[1], p.target.item) for p in pairs if p.reference and p.target] == [((5,), 1), ((2,), 0)]


def test_long_stretches_without_an_anchor_are_paired_in_linear_time() -> None:
    names = ["a", "b"] * MOST_EDITS
    pairs = align(calls(names), calls([*names[:100], "x", *names[100:]]))
    assert sum(pair.reference is None or pair.target is None for pair in pairs) <= 3


NAMES = st.lists(st.sampled_from("abcde"), max_size=30)


@given(NAMES, NAMES)
def test_every_call_appears_once_and_in_the_order_of_its_run(first, second) -> None:
    mine, theirs = calls(first), calls(second)
    pairs = align(mine, theirs)
    assert [pair.reference for pair in pairs if pair.reference] == mine
    assert {id(pair.target) for pair in pairs if pair.target} == {id(call) for call in theirs}
    assert len([pair for pair in pairs if pair.target]) == len(theirs)


@given(NAMES, st.integers(0, 2**16))
def test_dropping_calls_leaves_only_those_without_a_partner(names, seed) -> None:
    names = [f"{name}{i}" for i, name in enumerate(names)]
    kept = [name for name in names if random.Random(f"{seed}{name}").random() < 0.7]
    pairs = align(calls(names), calls(kept))
    assert [pair.reference.row.name for pair in pairs if pair.reference and pair.target] == kept


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("module.layer1.0", "layer1.0"),
        ("_orig_mod.module.fc", "fc"),
        ("blocks._checkpoint_wrapped_module.0", "blocks.0"),
        ("encoder.module.fc", "encoder.module.fc"),
        ("module", ""),
    ],
)
def test_names_of_wrappers_are_left_out_of_paths(path, expected) -> None:
    assert plain_path(path) == expected
