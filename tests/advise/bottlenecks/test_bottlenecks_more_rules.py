"""The other rules, each with the fault planted and without it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from step_builder import StepBuilder, advise_steps, of, reasons
from test_bottlenecks_four_rules import clean_step

from jumar.base.findings import Severity

# JM405


def test_float64_is_followed_from_the_line_where_it_enters(tmp_path):
    b = clean_step()
    wide = b.op("aten::_to_copy", [b.tensor(64, 64)], b.tensor(64, 64, dtype="float64"), source="loss.py:3")
    wide = b.op("aten::mul.Tensor", [wide, b.tensor(64, 64)], b.tensor(64, 64, dtype="float64"), source="loss.py:4")
    b.op("aten::_to_copy", [wide], b.tensor(64, 64), source="loss.py:5")
    (finding,) = of(advise_steps(tmp_path, [b]), "JM405")
    assert finding.message == (
        "float64 enters at `aten::_to_copy` at loss.py:3, and 3 operators work on it each step: 38 % of the operators, "
        "176 KiB."
    )
    assert finding.evidence["num_calls"] == 3
    assert (finding.where.path, finding.where.line) == ("loss.py", 3)


def test_a_python_number_is_no_float64_tensor(tmp_path):
    b = clean_step()
    b.op("aten::mul.Tensor", [b.tensor(64, 64), b.tensor(dtype="float64", device="cpu")], b.tensor(64, 64))
    assert of(advise_steps(tmp_path, [b]), "JM405") == []


@pytest.mark.parametrize(("dtype", "num_findings"), [("int64", 1), ("int32", 0)])
def test_64_bit_indices_are_noted_where_32_bits_do(tmp_path, dtype, num_findings):
    b = StepBuilder()
    table, tokens = b.tensor(1000, 4), b.tensor(64, 32, dtype=dtype)
    b.op("aten::embedding", [table, tokens], b.tensor(64, 32, 4), module="wte")
    found = of(advise_steps(tmp_path, [b]), "JM405")
    assert len(found) == num_findings
    assert all(f.severity == Severity.INFO and f.evidence["bytes_per_step"] == 64 * 32 * 8 for f in found)


# JM406


def step_with_item(number: int, *, device: str = "npu:0", phase: str = "forward") -> StepBuilder:
    b = clean_step(number, device=device)
    b.op("aten::_local_scalar_dense", [b.tensor(device=device)], None, source="train.py:41", phase=phase)
    return b


def test_a_number_read_in_every_step_is_named_by_its_line(tmp_path):
    (finding,) = of(advise_steps(tmp_path, [step_with_item(0), step_with_item(1)]), "JM406")
    assert finding.message == (
        "train.py:41 makes the host wait for the device once a step: `aten::_local_scalar_dense` reads a number."
    )
    assert finding.severity == Severity.ADVICE


def test_a_number_read_now_and_then_is_information(tmp_path):
    steps = [step_with_item(0), *(clean_step(number) for number in range(1, 10))]
    (finding,) = of(advise_steps(tmp_path, steps), "JM406")
    assert (finding.severity, finding.evidence["calls_per_step"]) == (Severity.INFO, 0.1)


def test_a_number_read_from_a_host_tensor_waits_for_nothing(tmp_path):
    b = clean_step()
    b.op("aten::_local_scalar_dense", [b.tensor(device="cpu")], None, phase="optimizer")
    assert of(advise_steps(tmp_path, [b]), "JM406") == []


def test_in_a_run_on_the_cpu_indices_drawn_and_read_to_load_a_batch_are_no_waits(tmp_path):
    b = clean_step(device="cpu")
    drawn = b.op("aten::randint", [], b.tensor(4, dtype="int64"), source="data.py:3")
    one = b.op("aten::select.int", [drawn], b.view(drawn, (), ()), source="data.py:4")
    b.op("aten::_local_scalar_dense", [one], None, source="data.py:4")
    result = b.op("aten::relu", [b.tensor(4)], b.tensor(4), module="act")
    b.op("aten::_local_scalar_dense", [result], None, source="train.py:9")
    lines = [finding.where.line for finding in of(advise_steps(tmp_path, [b], device="cpu"), "JM406")]
    assert lines == [9]


def test_in_a_run_on_the_cpu_what_the_optimizer_reads_is_not_checked(tmp_path):
    advice = advise_steps(tmp_path, [step_with_item(0, device="cpu", phase="optimizer")], device="cpu")
    assert of(advice, "JM406") == []
    assert len(reasons(advice, "JM406")) == 2
    assert reasons(advice, "JM406")[1].startswith("1 numbers read by the optimizer")


def test_sizes_from_data_and_blocking_copies_are_waits_and_others_are_not(tmp_path):
    b = clean_step()
    x = b.tensor(100)
    b.op("aten::nonzero", [x], b.tensor(7, 1, dtype="int64"), source="a.py:1")
    b.op("aten::index.Tensor", [x, [b.tensor(100, dtype="bool")]], b.tensor(7), source="a.py:2")
    b.op("aten::index.Tensor", [x, [b.tensor(9, dtype="int64")]], b.tensor(9), source="a.py:3")
    b.op("aten::_to_copy", [x], b.tensor(100, device="cpu"), source="a.py:4")
    free = {"non_blocking": True}
    b.op("aten::_to_copy", [x], b.tensor(100, device="cpu"), source="a.py:5", arguments=free)
    b.op("aten::_to_copy", [b.tensor(100, device="cpu")], x, source="a.py:6")
    lines = [finding.where.line for finding in of(advise_steps(tmp_path, [b]), "JM406")]
    assert sorted(lines) == [1, 2, 4]


# JM407


def step_of(num_small: int, num_large: int) -> StepBuilder:
    b = StepBuilder()
    for _ in range(num_small):
        b.op("aten::add.Tensor", [b.tensor(16)], b.tensor(16), source="cell.py:12")
    for _ in range(num_large):
        b.op("aten::relu", [b.tensor(64, 64)], b.tensor(64, 64))
    return b


def test_a_step_of_small_operators_is_bound_by_the_host(tmp_path):
    (finding,) = of(advise_steps(tmp_path, [step_of(90, 10)]), "JM407")
    assert finding.message == (
        "90 of 100 operators a step outside the optimizer (90 %) return fewer than 4,096 elements, mostly "
        "`aten::add.Tensor`, from cell.py:12 (90)."
    )


@pytest.mark.parametrize(("num_small", "num_large"), [(40, 60), (49, 0)])
def test_few_small_operators_are_no_bottleneck(tmp_path, num_small, num_large):
    assert of(advise_steps(tmp_path, [step_of(num_small, num_large)]), "JM407") == []


# JM408


def optimizer_step(num_parameters: int, *, foreach: bool, device: str = "npu:0") -> StepBuilder:
    b = StepBuilder(device=device)
    parameters = [b.tensor(64) for _ in range(num_parameters)]
    grads = [b.tensor(64) for _ in range(num_parameters)]
    if foreach:
        b.op("aten::_foreach_add_.List", [parameters, grads], None, phase="optimizer")
        return b
    for parameter, grad in zip(parameters, grads, strict=True):
        b.op("aten::mul_.Tensor", [parameter], parameter, phase="optimizer", source="train.py:9")
        b.op("aten::add_.Tensor", [parameter, grad], parameter, phase="optimizer", source="train.py:9")
    return b


def test_an_optimizer_that_goes_parameter_by_parameter_is_found(tmp_path):
    (finding,) = of(advise_steps(tmp_path, [optimizer_step(20, foreach=False)]), "JM408")
    assert finding.message == (
        "The optimizer starts 40 operators a step to update 20 tensors one by one, 100 % of all operators."
    )


def test_a_multi_tensor_optimizer_is_fine(tmp_path):
    assert of(advise_steps(tmp_path, [optimizer_step(20, foreach=True)]), "JM408") == []


def test_on_the_cpu_the_choice_of_optimizer_says_nothing(tmp_path):
    advice = advise_steps(tmp_path, [optimizer_step(20, foreach=False, device="cpu")], device="cpu")
    assert of(advice, "JM408") == []
    assert reasons(advice, "JM408") == [
        "PyTorch chooses multi-tensor optimizers only on accelerators, and this run was on the CPU."
    ]


# JM409


def half_product(num_out: int) -> StepBuilder:
    b = StepBuilder()
    left, right = b.tensor(32, 64, dtype="float16"), b.tensor(64, num_out, dtype="float16")
    b.op("aten::mm", [left, right], b.tensor(32, num_out, dtype="float16"), module="head")
    return b


def test_a_narrow_output_is_padded_to_sixteen(tmp_path):
    (finding,) = of(advise_steps(tmp_path, [half_product(4)]), "JM409")
    assert finding.evidence["padded_percent"] == 75.0
    assert finding.evidence["padded_flops_per_step"] == 3 * 2 * 32 * 64 * 4
    assert "`head 32×64×4`" in finding.message


@pytest.mark.parametrize("num_out", [16, 1000])
def test_aligned_or_nearly_aligned_products_are_fine(tmp_path, num_out):
    advice = advise_steps(tmp_path, [half_product(num_out)])
    assert of(advice, "JM409") == []
    assert "JM409" in advice.checked


def test_a_grouped_convolution_is_not_judged(tmp_path):
    b = half_product(16)
    x, weight = b.tensor(1, 3, 8, 8, dtype="float16"), b.tensor(3, 1, 3, 3, dtype="float16")
    b.op("aten::convolution", [x, weight], b.tensor(1, 3, 8, 8, dtype="float16"), arguments={"groups": 3})
    assert of(advise_steps(tmp_path, [b]), "JM409") == []


# JM410


def step_after(number: int, gap_us: float) -> StepBuilder:
    b = StepBuilder(number)
    b.wait(gap_us)
    b.op("aten::mm", [b.tensor(64, 64), b.tensor(64, 64)], b.tensor(64, 64), module="fc", duration_us=20_000.0)
    return b


def test_a_wait_before_the_step_is_measured_without_the_first_step(tmp_path):
    steps = [step_after(0, 900_000.0), step_after(1, 60_000.0), step_after(2, 62_000.0), step_after(3, 58_000.0)]
    (finding,) = of(advise_steps(tmp_path, steps), "JM410")
    assert finding.message == (
        "60.0 ms of each step pass before the model is called, 75 % of that and the operators' host time together "
        "(host time of the recorded run)."
    )
    assert finding.evidence["greatest_gap_us"] == 62_000.0


def test_reading_the_last_loss_on_the_device_neither_hides_the_wait_nor_adds_to_it(tmp_path):
    steps = []
    for number in range(3):
        b = StepBuilder(number)
        b.op("aten::_local_scalar_dense", [b.tensor()], None, duration_us=30_000.0)
        b.wait(60_000.0)
        b.op("aten::relu", [b.tensor(64, 64)], b.tensor(64, 64), module="act", duration_us=20_000.0)
        steps.append(b)
    (finding,) = of(advise_steps(tmp_path, steps), "JM410")
    assert finding.evidence["gap_us"] == 60_000.0


def test_a_short_wait_is_fine_and_one_step_says_nothing(tmp_path):
    assert of(advise_steps(tmp_path / "a", [step_after(0, 5e5), step_after(1, 500.0)]), "JM410") == []
    advice = advise_steps(tmp_path / "b", [step_after(0, 900_000.0)])
    assert "JM410" not in advice.checked
    assert reasons(advice, "JM410") != []


# JM411


def test_the_same_operator_on_the_same_tensors_is_repeated_work(tmp_path):
    b = clean_step()
    mask = b.tensor(64, 64, dtype="bool")
    for layer in range(4):
        b.op("aten::logical_not", [mask], b.tensor(64, 64, dtype="bool"), module=f"layers.{layer}", source="m.py:3")
    (finding,) = of(advise_steps(tmp_path, [b]), "JM411")
    assert finding.evidence["num_calls"] == 3
    assert finding.evidence["bytes_per_step"] == 3 * 2 * 64 * 64
    assert finding.where.line == 3


def test_another_argument_a_write_in_between_or_a_random_operator_is_no_repetition(tmp_path):
    b = clean_step()
    x = b.tensor(64, 64)
    b.op("aten::sum.dim_IntList", [x], b.tensor(64), arguments={"dim": [0]})
    b.op("aten::sum.dim_IntList", [x], b.tensor(64), arguments={"dim": [1]})
    b.op("aten::exp", [x], b.tensor(64, 64))
    b.op("aten::add_.Tensor", [x], x)
    b.op("aten::exp", [x], b.tensor(64, 64))
    for _ in range(2):
        b.op("aten::native_dropout", [b.view(x, (64, 64), (64, 1))], b.tensor(64, 64))
        b.op("aten::ones_like", [x], b.tensor(64, 64))
    for phase in ("forward", "backward"):
        b.op("aten::relu", [x], b.tensor(64, 64), phase=phase)
    assert of(advise_steps(tmp_path, [b]), "JM411") == []


@pytest.mark.parametrize("draws", [True, False])
def test_an_operator_of_another_library_is_random_where_the_recording_says_so(tmp_path, draws):
    b = clean_step()
    x = b.tensor(64, 64)
    for _ in range(2):
        b.op("mylib::noisy", [x], b.tensor(64, 64))
        b.rows[-1] = replace(b.rows[-1], draws=draws)
    assert len(of(advise_steps(tmp_path, [b]), "JM411")) == (not draws)


# JM412


def test_a_tensor_sent_to_the_device_inside_a_module_is_found(tmp_path):
    steps = []
    for number in range(2):
        b = clean_step(number)
        host = b.tensor(100, dtype="int64", device="cpu")
        b.op("aten::_to_copy", [host], b.tensor(100, dtype="int64"), module="shuffle", source="net.py:8")
        steps.append(b)
    (finding,) = of(advise_steps(tmp_path, steps), "JM412")
    assert finding.message == (
        "`aten::_to_copy` at net.py:8 copies a tensor from the host to the device once a step in `shuffle`: "
        "800 B over the bus."
    )


def test_a_batch_sent_to_the_device_outside_the_modules_is_as_it_should_be(tmp_path):
    b = clean_step()
    b.op("aten::_to_copy", [b.tensor(32, 64, device="cpu")], b.tensor(32, 64), source="train.py:20")
    assert of(advise_steps(tmp_path, [b]), "JM412") == []


def test_the_seed_a_loader_draws_on_the_host_is_no_wait(tmp_path):
    b = clean_step(device="cpu")
    seed = b.op("aten::empty.memory_format", [], b.tensor(dtype="int64"), source="train.py:5")
    b.op("aten::random_", [seed], seed, source="train.py:5")
    b.op("aten::_local_scalar_dense", [seed], None, source="train.py:5")
    assert of(advise_steps(tmp_path, [b], device="cpu"), "JM406") == []
