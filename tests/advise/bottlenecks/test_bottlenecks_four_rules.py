"""The four rules that every port needs, each with the fault planted and without it."""

from __future__ import annotations

from step_builder import StepBuilder, advise_steps, of, reasons

from jumar.base.findings import Severity


def clean_step(number: int = 0, batch: int = 32, device: str = "npu:0") -> StepBuilder:
    """Linear, ReLU, Linear, loss, backward and one fused update: nothing to complain about."""
    b = StepBuilder(number, device)
    b.wait(5.0)
    x = b.tensor(batch, 64)
    weight = b.tensor(64, 64)
    turned = b.op("aten::t", [weight], b.view(weight, (64, 64), (1, 64)), module="fc1")
    h = b.op("aten::mm", [x, turned], b.tensor(batch, 64), module="fc1")
    h = b.op("aten::relu", [h], b.tensor(batch, 64), module="act")
    loss = b.op("aten::mean", [h], b.tensor())
    grad = b.op("aten::mul.Tensor", [h, loss], b.tensor(batch, 64), phase="backward")
    b.op("aten::_foreach_add_.List", [[weight], [grad]], None, phase="optimizer")
    return b


def test_a_clean_run_has_no_finding_and_every_rule_but_those_named_ran(tmp_path):
    advice = advise_steps(tmp_path, [clean_step(0), clean_step(1)])
    assert [f.message for f in advice.findings] == []
    assert [(item.code, item.reason) for item in advice.not_checked] == [
        ("JM409", "no matrix product ran in half precision; record with autocast on to see its alignment.")
    ]
    assert "JM401" in advice.checked


# JM401


def step_with_fallback(number: int) -> StepBuilder:
    b = clean_step(number)
    for block in range(3):
        matrix = b.tensor(16, 16)
        name = "aten::linalg_eig"
        b.op(name, [matrix], b.tensor(16, 16), module=f"blocks.{block}", source="model.py:7", duration_us=30.0)
    return b


def test_a_fallback_operator_is_counted_with_the_bytes_that_cross_the_bus(tmp_path):
    steps = [step_with_fallback(0), step_with_fallback(1)]
    (finding,) = of(advise_steps(tmp_path, steps, statuses={"aten::linalg_eig": "fallback"}), "JM401")
    assert finding.message == (
        "`aten::linalg_eig` has no kernel on Ascend910B1 and runs on the host 3 times a step in 3 modules "
        "(`blocks.0` to `blocks.2`): 38 % of the operators, 6 KiB over the bus."
    )
    assert finding.evidence["num_calls"] == 6
    assert finding.evidence["bus_bytes_per_step"] == 3 * 2 * 16 * 16 * 4
    assert finding.evidence["host_time_percent"] == 60.0
    assert finding.evidence["sources"] == {"model.py:7": 6}
    assert (finding.where.path, finding.where.line, finding.confidence) == ("model.py", 7, "certain")


def test_native_operators_are_no_fallback(tmp_path):
    assert of(advise_steps(tmp_path, [step_with_fallback(0)]), "JM401") == []


def test_operators_on_host_tensors_of_an_npu_run_are_data_preparation_and_no_fallback(tmp_path):
    b = clean_step()
    b.op("aten::linalg_eig", [b.tensor(16, 16, device="cpu")], b.tensor(16, 16, device="cpu"))
    assert of(advise_steps(tmp_path, [b], statuses={"aten::linalg_eig": "fallback"}), "JM401") == []


def test_a_fallback_seen_in_a_run_on_the_cpu_is_only_likely(tmp_path):
    b = clean_step(device="cpu")
    b.op("aten::linalg_eig", [b.tensor(16, 16)], b.tensor(16, 16))
    (finding,) = of(advise_steps(tmp_path, [b], device="cpu", statuses={"aten::linalg_eig": "fallback"}), "JM401")
    assert finding.confidence == "likely"


def test_an_unsupported_operator_is_named_as_not_checked(tmp_path):
    advice = advise_steps(tmp_path, [step_with_fallback(0)], statuses={"aten::linalg_eig": "unsupported"})
    assert of(advice, "JM401") == []
    assert reasons(advice, "JM401") == [
        "aten::linalg_eig: Ascend910B1 cannot run this at all, so its cost there is unknown; see `jumar assess` on "
        "this recording."
    ]


# JM402


def shuffle_step(number: int, *, contiguous: bool = True) -> StepBuilder:
    """The seed's channel shuffle in two blocks: view, transpose, contiguous, view."""
    b = clean_step(number)
    for block in range(2):
        x = b.tensor(8, 4, 16)
        where = {"module": f"stage.{block}", "source": "shuffle.py:9"}
        parts = b.op("aten::view", [x], b.view(x, (8, 2, 2, 16), (64, 32, 16, 1)), **where)
        turned = b.op("aten::transpose.int", [parts], b.view(parts, (8, 2, 2, 16), (64, 16, 32, 1)), **where)
        y = b.tensor(8, 2, 2, 16)
        if contiguous:
            y = b.op("aten::clone", [turned], y, module=f"stage.{block}", source="shuffle.py:10")
        b.op("aten::relu", [y], b.tensor(8, 2, 2, 16), module=f"stage.{block}", source="shuffle.py:11")
    return b


def test_a_channel_shuffle_names_the_transpose_and_its_line_and_the_bytes(tmp_path):
    (finding,) = of(advise_steps(tmp_path, [shuffle_step(0), shuffle_step(1)]), "JM402")
    assert finding.message == (
        "`aten::transpose.int` at shuffle.py:9 leaves tensors non-contiguous in the forward, and `aten::clone` at "
        "shuffle.py:10 copies twice a step in 2 modules (`stage.0` to `stage.1`): 8 KiB a step, "
        "6 % of all bytes moved."
    )
    assert finding.evidence["bytes_per_step"] == 2 * 2 * 8 * 4 * 16 * 4
    assert finding.evidence["num_calls"] == 4
    assert finding.evidence["view"] == "aten::transpose.int"
    assert (finding.where.path, finding.where.line) == ("shuffle.py", 9)
    assert "index_select" in finding.action


def test_a_view_without_a_copy_or_a_reader_is_no_copy(tmp_path):
    assert of(advise_steps(tmp_path, [shuffle_step(0, contiguous=False)]), "JM402") == []


def test_a_chunk_that_goes_into_a_kernel_is_a_hidden_copy(tmp_path):
    b = clean_step()
    x = b.tensor(8, 4, 16)
    halves = [b.view(x, (8, 2, 16), (64, 16, 1), offset) for offset in (0, 32)]
    b.op("aten::split.Tensor", [x], halves, source="net.py:5")
    b.op("aten::relu", [halves[0]], b.tensor(8, 2, 16), source="net.py:6")
    (finding,) = of(advise_steps(tmp_path, [b]), "JM402")
    assert finding.confidence == "likely"
    assert finding.evidence["view"] == "aten::split.Tensor"
    assert finding.evidence["copy"] == "inside the kernels"
    assert finding.evidence["bytes_per_step"] == 2 * 8 * 2 * 16 * 4


def test_the_cause_is_followed_through_later_views(tmp_path):
    b = clean_step()
    x = b.tensor(4, 6, 8)
    turned = b.op("aten::permute", [x], b.view(x, (8, 6, 4), (1, 8, 48)), source="net.py:5")
    part = b.op("aten::slice.Tensor", [turned], b.view(turned, (8, 3, 4), (1, 8, 48)), source="net.py:6")
    b.op("aten::clone", [part], b.tensor(8, 3, 4), source="net.py:7")
    (finding,) = of(advise_steps(tmp_path, [b]), "JM402")
    assert (finding.evidence["view"], finding.evidence["view_source"]) == ("aten::permute", "net.py:5")


def test_copies_that_move_no_element_to_another_place_are_none_of_these(tmp_path):
    b = clean_step()
    x = b.tensor(8, 4, 16)
    b.op("aten::clone", [x], b.tensor(8, 4, 16))
    last = (4 * 9, 1, 4 * 3, 4)
    nhwc = b.tensor(2, 4, 3, 3, stride=last)
    b.op("aten::clone", [nhwc], b.tensor(2, 4, 3, 3, stride=last))
    b.op("aten::relu", [nhwc], b.tensor(2, 4, 3, 3, stride=last))
    weight = b.tensor(64, 64)
    turned = b.op("aten::t", [weight], b.view(weight, (64, 64), (1, 64)))
    b.op("aten::mm", [b.tensor(8, 64), turned], b.tensor(8, 64))
    ones = b.op("aten::expand", [b.tensor()], b.view(b.tensor(), (8, 64), (0, 0)))
    b.op("aten::mul.Tensor", [b.tensor(8, 64), ones], b.tensor(8, 64))
    assert of(advise_steps(tmp_path, [b]), "JM402") == []


def test_a_tiny_share_is_information_only(tmp_path):
    b = clean_step()
    for _ in range(200):
        b.op("aten::relu", [b.tensor(512, 512)], b.tensor(512, 512))
    x = b.tensor(4, 4)
    turned = b.op("aten::t", [x], b.view(x, (4, 4), (1, 4)))
    b.op("aten::clone", [turned], b.tensor(4, 4))
    (finding,) = of(advise_steps(tmp_path, [b]), "JM402")
    assert finding.severity == Severity.INFO


# JM403


def test_a_smaller_last_batch_is_found_with_its_dimension_and_the_operators_it_touches(tmp_path):
    steps = [clean_step(0), clean_step(1), clean_step(2, batch=17)]
    (finding,) = of(advise_steps(tmp_path, steps), "JM403")
    assert finding.message == (
        "Shapes change in step 2 because the batch (dimension 0) of a tensor entering at `aten::mm` at train.py:1 "
        "changes (32×64 to 17×64): 5 operator signatures beyond the first step's 5 are prepared on Ascend910B1 in "
        "mid-training."
    )
    assert finding.evidence["num_new_signatures"] == 5
    assert finding.evidence["distinct_shapes"]["aten::mm"] == 2
    assert finding.evidence["steps"] == [2]
    assert "drop_last=True" in finding.action
    assert finding.where.step == 2


def test_on_the_first_generation_the_operators_are_compiled(tmp_path):
    advice = advise_steps(tmp_path, [clean_step(0), clean_step(1, batch=17)], soc="Ascend910A")
    (finding,) = of(advice, "JM403")
    assert "are compiled on Ascend910A" in finding.message
    assert finding.evidence["compiled_online"] is True


def test_equal_shapes_in_every_step_are_no_finding(tmp_path):
    assert of(advise_steps(tmp_path, [clean_step(n) for n in range(3)]), "JM403") == []


def test_operators_that_only_start_in_the_second_step_are_no_change_of_shape(tmp_path):
    second = clean_step(1)
    buffer = second.tensor(64, 64)
    second.op("aten::mul_.Tensor", [buffer], buffer, phase="optimizer")
    assert of(advise_steps(tmp_path, [clean_step(0), second]), "JM403") == []


def data_dependent_step(number: int, kept: int) -> StepBuilder:
    b = clean_step(number)
    scores, mask = b.tensor(100), b.tensor(100, dtype="bool")
    found = b.op("aten::index.Tensor", [scores, [mask]], b.tensor(kept), source="loss.py:4", module="loss")
    b.op("aten::exp", [found], b.tensor(kept), source="loss.py:5", module="loss")
    return b


def test_a_size_that_depends_on_the_data_names_the_operator_that_chose_it(tmp_path):
    (finding,) = of(advise_steps(tmp_path, [data_dependent_step(0, 30), data_dependent_step(1, 41)]), "JM403")
    assert finding.evidence["causes"] == [
        "`aten::index.Tensor` at loss.py:4 returns a size that depends on the data (30 to 41)"
    ]
    assert finding.evidence["num_new_signatures"] == 1
    assert (finding.where.path, finding.where.line) == ("loss.py", 4)


def test_a_sequence_length_is_told_from_a_batch(tmp_path):
    steps = []
    for number, length in enumerate((16, 24, 16, 20)):
        b = StepBuilder(number)
        table, tokens = b.tensor(100, 8), b.tensor(4, length, dtype="int64")
        b.op("aten::embedding", [table, tokens], b.tensor(4, length, 8), module="wte")
        steps.append(b)
    (finding,) = of(advise_steps(tmp_path, steps), "JM403")
    assert finding.evidence["steps"] == [1, 3]
    assert finding.evidence["distinct_shapes"] == {"aten::embedding": 3}
    assert "dimension 1 of a tensor entering at `aten::embedding`" in finding.message
    assert "buckets" in finding.action


def test_one_step_is_not_enough_to_see_a_change(tmp_path):
    advice = advise_steps(tmp_path, [clean_step(0)])
    assert reasons(advice, "JM403") == ["needs two steps to compare, and the recording has 1; record --steps 0:3."]
    assert "JM403" not in advice.checked


# JM404


def test_a_round_trip_through_float16_is_found_with_both_lines(tmp_path):
    b = clean_step()
    x = b.tensor(64, 64)
    half = b.op("aten::_to_copy", [x], b.tensor(64, 64, dtype="float16"), source="net.py:3", module="attn")
    b.op("aten::_to_copy", [half], b.tensor(64, 64), source="net.py:4", module="attn")
    found = of(advise_steps(tmp_path, [b]), "JM404")
    trip = next(finding for finding in found if finding.evidence["pattern"] == "round trip")
    assert trip.message == (
        "A tensor goes float32 → float16 → float32 at net.py:3 (back at net.py:4) once a step in `attn`: 48 KiB a step."
    )
    assert trip.evidence["bytes_per_step"] == 2 * 64 * 64 * (4 + 2)


def test_a_cast_of_an_operators_result_is_no_round_trip(tmp_path):
    b = clean_step()
    half = b.op("aten::_to_copy", [b.tensor(64, 64)], b.tensor(64, 64, dtype="float16"))
    product = b.op("aten::mm", [half, half], b.tensor(64, 64, dtype="float16"))
    b.op("aten::_to_copy", [product], b.tensor(64, 64))
    patterns = [finding.evidence["pattern"] for finding in of(advise_steps(tmp_path, [b]), "JM404")]
    assert patterns == ["share"]


def test_casting_the_same_tensor_again_is_found_but_not_after_it_was_written(tmp_path):
    b = clean_step()
    mask, weight = b.tensor(64, 64), b.tensor(64, 64)
    for _ in range(3):
        b.op("aten::_to_copy", [mask], b.tensor(64, 64, dtype="float16"), source="net.py:8")
        b.op("aten::_to_copy", [weight], b.tensor(64, 64, dtype="float16"), source="net.py:9")
        b.op("aten::add_.Tensor", [weight], weight)
    repeated = [f for f in of(advise_steps(tmp_path, [b]), "JM404") if f.evidence["pattern"] == "repeated"]
    assert [(finding.where.line, finding.evidence["num_calls"]) for finding in repeated] == [(8, 2)]


def test_an_operator_alone_in_float32_is_an_island(tmp_path):
    b = clean_step()
    wide = b.op("aten::_to_copy", [b.tensor(64, 64, dtype="float16")], b.tensor(64, 64), module="norm")
    normal = b.op("aten::native_layer_norm", [wide], b.tensor(64, 64), module="norm")
    b.op("aten::_to_copy", [normal], b.tensor(64, 64, dtype="float16"), module="norm")
    (island,) = [f for f in of(advise_steps(tmp_path, [b]), "JM404") if f.evidence["pattern"] == "island"]
    assert island.message == (
        "`aten::native_layer_norm` runs alone in a wider dtype (float16 → float32 → float16) once a step in `norm`: "
        "48 KiB a step."
    )


def test_few_casts_that_are_needed_are_no_finding(tmp_path):
    b = clean_step()
    for _ in range(20):
        b.op("aten::relu", [b.tensor(64, 64)], b.tensor(64, 64))
    b.op("aten::_to_copy", [b.tensor(64, 64)], b.tensor(64, 64, dtype="float16"))
    assert of(advise_steps(tmp_path, [b]), "JM404") == []
