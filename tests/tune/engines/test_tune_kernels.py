"""Jumar's own kernels against PyTorch in float64, and as an engine."""

from __future__ import annotations

import math
import random
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional as F

from jumar.base.native import compiler
from jumar.tune.engines.base import Site
from jumar.tune.engines.kernels.engine import Kernels
from jumar.tune.engines.kernels.library import Bound, widths
from jumar.tune.engines.kernels.lowering import assemble
from jumar.tune.engines.kernels.lowering.tiles import Tiling
from jumar.tune.engines.kernels.program import CODES, PLACE, Blob, Program
from jumar.tune.graph.fx import from_fx
from jumar.tune.model.errors import TuneError
from jumar.tune.plan.engines import ENGINES

pytestmark = pytest.mark.skipif(not compiler(), reason="no C++ compiler is installed")
SLOW_SETTINGS = {"derandomize": True, "deadline": None, "suppress_health_check": list(HealthCheck)}


@pytest.fixture(scope="module", autouse=True)
def _compiled_once(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    return lambda: tmp_path_factory.mktemp("kernels")


class Net(nn.Module):
    def __init__(self, function: Any, *modules: nn.Module) -> None:
        super().__init__()
        self.parts, self.function = nn.ModuleList(modules), function

    def forward(self, *inputs: torch.Tensor) -> Any:
        return self.function(*self.parts, *inputs)


def site_of(model: nn.Module, inputs: list[torch.Tensor], folder, num_threads: int = 1) -> Site:
    program = torch.export.export(model.eval(), tuple(inputs))
    specs = program.graph_signature.input_specs
    known: dict[str | None, Any] = {**program.state_dict, **program.constants}
    places = [place for place, spec in enumerate(specs) if spec.target in known]
    graph, held = from_fx(program.graph_module, places)
    weights = {place: known[specs[place].target].detach() for place in places}
    return Site(graph=graph, constants={**weights, **held}, example=inputs, folder=folder, num_threads=num_threads)


def error_of(model: nn.Module, function: Any, inputs: list[torch.Tensor]) -> float:
    """Greatest error over the greatest value of the reference in float64."""
    with torch.no_grad():
        expected = model.double()(*[value.double() for value in inputs])
        default = model.float()(*inputs)
    (actual,) = function(*inputs)
    assert (actual.shape, actual.stride(), actual.dtype) == (default.shape, default.stride(), default.dtype)
    return (actual - expected).abs().max().item() / max(expected.abs().max().item(), 1e-30)


def build(model: nn.Module, inputs: list[torch.Tensor], folder, num_threads: int = 1, **chosen: Any) -> Any:
    site = site_of(model, inputs, folder, num_threads)
    assert Kernels().unsupported(site.graph) == ""
    return Kernels().build(site, {"vector": widths()[0], **chosen})


def with_statistics(model: nn.Module) -> nn.Module:
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            nn.init.uniform_(module.weight, 0.5, 1.5)
            nn.init.normal_(module.bias)
            nn.init.normal_(module.running_mean)
            nn.init.uniform_(module.running_var, 0.5, 2.0)
    return model


sizes = st.integers(1, 3)


@given(
    groups=st.sampled_from([1, 1, 2, 3]), inside=st.integers(1, 21), outside=st.integers(1, 37),
    kernel=st.tuples(sizes, sizes),
    stride=st.tuples(sizes, sizes), dilation=st.tuples(sizes, sizes),
    padding=st.tuples(st.integers(0, 2), st.integers(0, 2)),
    batch=sizes, size=st.tuples(st.integers(9, 17), st.integers(9, 30)), bias=st.booleans(), seed=st.integers(0, 9),
)  # fmt: skip
@settings(max_examples=12, **SLOW_SETTINGS)
def test_any_convolution(
    folders, groups, inside, outside, kernel, stride, dilation, padding, batch, size, bias, seed
) -> None:
    torch.manual_seed(seed)
    model = nn.Conv2d(groups * inside, groups * outside, kernel, stride, padding, dilation, groups, bias=bias)
    x = torch.randn(batch, groups * inside, *size)
    assert error_of(model, build(model, [x], folders()), [x]) < 2e-6


@given(
    channels=st.integers(2, 70), multiple=st.sampled_from([1, 1, 1, 2]), kernel=st.sampled_from([1, 2, 3, 5]),
    stride=sizes, dilation=st.sampled_from([1, 1, 2]), batch=sizes,
    size=st.tuples(st.integers(9, 30), st.integers(9, 30)), fused=st.booleans(), num_threads=st.sampled_from([1, 2]),
)  # fmt: skip
@settings(max_examples=12, **SLOW_SETTINGS)
def test_any_depthwise_convolution_also_in_bands_with_the_product_before_it(
    folders, channels, multiple, kernel, stride, dilation, batch, size, fused, num_threads
) -> None:
    torch.manual_seed(channels)
    before = nn.Conv2d(7, channels, 1)
    depthwise = nn.Conv2d(channels, channels * multiple, kernel, stride, kernel // 2 * dilation, dilation, channels)
    model = Net(lambda one, two, x: F.relu6(two(F.relu(one(x)))), before, depthwise)
    x = torch.randn(batch, 7, *size)
    function = build(model, [x], folders(), num_threads, fuse=fused)
    assert error_of(model, function, [x]) < 2e-6


@given(
    m=st.sampled_from([2, 4]), inside=st.integers(16, 40), outside=st.integers(16, 70), batch=sizes,
    size=st.tuples(st.integers(20, 40), st.integers(20, 40)), padding=st.sampled_from([0, 1, 2]),
)  # fmt: skip
@settings(max_examples=6, **SLOW_SETTINGS)
def test_winograd_tiles_of_any_image(folders, m, inside, outside, batch, size, padding) -> None:
    torch.manual_seed(outside)
    model = Net(
        lambda one, two, x: torch.relu(one(x) + two(x)),
        nn.Conv2d(inside, outside, 3, padding=padding),
        nn.Conv2d(inside, outside, 3, padding=padding),
    )
    x = torch.randn(batch, inside, *size)
    assert error_of(model, build(model, [x], folders(), winograd=m), [x]) < 4e-6


def shuffled(x: torch.Tensor, groups: int) -> torch.Tensor:
    n, c, h, w = x.shape
    return x.view(n, groups, c // groups, h, w).transpose(1, 2).contiguous().view(n, c, h, w)


@pytest.mark.parametrize("m", [2, 4])
@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("num_threads", [1, 2])
def test_winograd_point_by_point(folders, monkeypatch, m, batch, num_threads) -> None:
    monkeypatch.setattr(assemble, "tiling_of", lambda low, step: Tiling(m, phased=True))
    torch.manual_seed(batch)
    model = Net(
        lambda one, two, x: F.silu(two(torch.relu(one(x))) + x),
        nn.Conv2d(40, 20, 3, padding=1),
        nn.Conv2d(20, 40, 3, padding=1),
    )
    x = torch.randn(batch, 40, 9, 11)
    function = build(model, [x], folders(), num_threads, winograd=m)
    assert error_of(model, function, [x]) < 4e-6


@pytest.mark.parametrize(
    ("batch", "winograd", "phased"), [(1, 0, False), (1, 2, True), (8, 4, True)], ids=["never", "one", "batch"]
)
def test_large_weights_go_point_by_point(folders, batch, winograd, phased) -> None:
    model, x = nn.Conv2d(256, 256, 3, padding=1), torch.randn(batch, 256, 14, 14)
    folder = folders()
    build(model, [x], folder, winograd=winograd)
    codes = Program.load(folder).operations[:, PLACE["code"]]
    assert (CODES.index("TILES_IN") in codes) == phased


@given(
    channels=st.integers(2, 20), kernel=st.tuples(st.sampled_from([1, 3, 5]), st.sampled_from([1, 3, 5])),
    stride=st.tuples(sizes, sizes), dilation=st.tuples(st.integers(1, 2), st.integers(1, 2)), batch=sizes,
    padding=st.tuples(st.integers(0, 3), st.integers(0, 3)), size=st.tuples(st.integers(11, 40), st.integers(27, 70)),
    num_threads=st.sampled_from([1, 2]), is_last=st.booleans(),
)  # fmt: skip
@settings(max_examples=15, **SLOW_SETTINGS)
def test_a_depthwise_convolution_between_tensors_goes_plane_by_plane(
    folders, channels, kernel, stride, dilation, batch, padding, size, num_threads, is_last
) -> None:
    torch.manual_seed(channels)
    depthwise = nn.Conv2d(channels, channels, kernel, stride, padding, dilation, channels)
    model = Net(lambda one, x: F.hardswish(one(x)) if is_last else one(x), depthwise)
    x = torch.randn(batch, channels, *size).transpose(2, 3).contiguous().transpose(2, 3)
    assert error_of(model, build(model, [x], folders(), num_threads), [x]) < 2e-6


def test_strided_planes_are_taken_where_rows_are_long(folders) -> None:
    folder = folders()
    build(nn.Conv2d(3, 3, 3, 2, 1, groups=3), [torch.randn(1, 3, 60, 60)], folder)
    assert CODES.index("DEPTHWISE_PLANES") in Program.load(folder).operations[:, PLACE["code"]]


@pytest.mark.parametrize("shape", [(5,), (3, 17), (2, 3, 5, 16), (4, 100)])
def test_gelu_by_tanh_of_any_shape(folders, shape) -> None:
    torch.manual_seed(0)
    x = torch.randn(shape) * 5
    assert error_of(nn.GELU(approximate="tanh"), build(nn.GELU(approximate="tanh"), [x], folders()), [x]) < 1e-6


@pytest.mark.parametrize("rows", [1, 7, 40])
@pytest.mark.parametrize("kind", ["mm", "addmm", "matmul"])
def test_products_with_a_constant_matrix_and_a_gelu_after_them(folders, rows, kind) -> None:
    torch.manual_seed(rows)
    model = nn.Module()
    model.matrix, model.row = nn.Parameter(torch.randn(70, 50)), nn.Parameter(torch.randn(50))
    compute = {
        "mm": lambda x: torch.mm(x, model.matrix),
        "addmm": lambda x: torch.addmm(model.row, x, model.matrix),
        "matmul": lambda x: torch.matmul(x, model.matrix),
    }
    model.forward = lambda x: F.gelu(compute[kind](x), approximate="tanh")
    x = torch.randn(rows, 70)
    assert error_of(model, build(model, [x], folders()), [x]) < 2e-6


@pytest.mark.parametrize("panel", [1, 2, 3, 4])
def test_the_width_of_panels_changes_no_bit(folders, panel) -> None:
    torch.manual_seed(0)
    model, x = nn.Conv2d(30, 70, 1), torch.randn(1, 30, 9, 9)
    folder = folders()
    given_width, free = build(model, [x], folder, panel=panel), build(model, [x], folders())
    assert Program.load(folder).operations[1, PLACE["nr"]] == min(panel, 4 if widths()[0] == 16 else 3)
    assert torch.equal(given_width(x)[0], free(x)[0])


NETS: dict[str, Any] = {
    "residual": (lambda a, b, x: torch.relu(b(torch.relu(a(x))) + x), (24, 40, 1), (40, 24, 3, 1, 1)),
    "shuffle": (
        lambda a, b, x: b(shuffled(torch.cat((x.chunk(2, 1)[0], a(x.chunk(2, 1)[1])), 1), 2)),
        (12, 12, 1),
        (24, 9, 3, 2),
    ),
    "concatenation": (lambda a, b, x: b(torch.relu(torch.cat((x, a(x)), 1))), (24, 10, 3, 1, 1), (34, 8, 3, 1, 1)),
    "attention of channels": (
        lambda a, b, x: a(x) * torch.sigmoid(b(F.adaptive_avg_pool2d(F.silu(a(x)), 1))),
        (24, 40, 1),
        (40, 40, 1),
    ),
    "pools": (lambda a, b, x: b(F.max_pool2d(a(x), 3, 2, 1) + F.avg_pool2d(a(x), 3, 2, 1)), (24, 17, 1), (17, 5, 1)),
    "asymmetric padding": (lambda a, b, x: b(a(F.pad(x, (0, 1, 2, 0)))), (24, 17, 3, 2), (17, 5, 1)),
    "an operator of ATen between": (lambda a, b, x: b(torch.cumsum(F.hardswish(a(x)), 2)), (24, 17, 1), (17, 5, 3)),
    "a mean at the end": (lambda a, b, x: F.hardsigmoid(b(a(x))).mean((2, 3)), (24, 17, 1), (17, 5, 3)),
}


@pytest.mark.parametrize("name", NETS)
@pytest.mark.parametrize("num_threads", [1, 2])
def test_what_stands_around_convolutions(name, num_threads, tmp_path) -> None:
    torch.manual_seed(0)
    function, *convolutions = NETS[name]
    model = Net(function, *(nn.Conv2d(*arguments) for arguments in convolutions))
    x = torch.randn(2, 24, 11, 9)
    assert error_of(model, build(model, [x], tmp_path, num_threads), [x]) < 2e-6


def classifier() -> nn.Module:
    torch.manual_seed(0)
    return with_statistics(
        nn.Sequential(
            nn.Conv2d(3, 24, 3, 2, 1, bias=False), nn.BatchNorm2d(24), nn.ReLU(), nn.Conv2d(24, 24, 3, 1, 1),
            nn.BatchNorm2d(24), nn.SiLU(), nn.Dropout(), nn.Flatten(), nn.Linear(24 * 6 * 5, 10),
        )
    )  # fmt: skip


@pytest.mark.parametrize(
    "chosen", [{}, {"images": 1}, {"winograd": 4}, pytest.param({"vector": 4}, marks=pytest.mark.slow)]
)
def test_loading_gives_the_same_function_to_the_bit(chosen, tmp_path) -> None:
    model, x = classifier(), torch.randn(3, 3, 12, 10)
    site = site_of(model, [x], tmp_path)
    options = {"vector": widths()[0], **chosen}
    built = Kernels().build(site, options)
    assert error_of(model, built, [x]) < 2e-6
    loaded = Kernels().load(replace(site, example=()), options)
    assert torch.equal(loaded(x)[0], built(x)[0])


def test_builds_compute_alike_to_the_bit_whatever_their_search_chose(tmp_path, monkeypatch) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(160, 70, 3, padding=1), nn.ReLU(), nn.Conv2d(70, 1100, 1), nn.Conv2d(1100, 40, 1))
    x = torch.randn(1, 160, 9, 7)
    outputs = []
    for seed in range(6):
        draw = partial(random.Random(seed).randint, 1, 100)
        monkeypatch.setattr("jumar.tune.engines.kernels.search._Product._time", lambda *_, draw=draw: draw())
        (tmp_path / str(seed)).mkdir()
        outputs.append(build(model, [x], tmp_path / str(seed))(x)[0])
    assert [seed for seed, output in enumerate(outputs) if not torch.equal(output, outputs[0])] == []


def test_outputs_of_earlier_calls_keep_their_values_unless_reuse_is_asked_for(tmp_path) -> None:
    model, x = nn.Conv2d(3, 5, 3), torch.randn(2, 1, 3, 8, 8)
    for reuse in (False, True):
        folder = tmp_path / str(reuse)
        folder.mkdir()
        function = build(model, [x[0]], folder, reuse=reuse)
        first = function(x[0])[0]
        kept = first.clone()
        function(x[1])
        assert torch.equal(first, kept) is not reuse


def test_copies_that_are_outputs_are_in_memory_of_their_own(tmp_path) -> None:
    def copies(layer: Any, more: Any, after: Any, image: torch.Tensor) -> tuple[torch.Tensor, ...]:
        made = layer(image)
        return made, made.clone(), made.clone().flatten(1), image.clone(), after(more(made)).relu().clone().clone()

    layers = [nn.Conv2d(3, 5, 3), nn.Conv2d(5, 5, 1), nn.Conv2d(5, 5, 1)]
    model, x = Net(copies, *layers), torch.randn(1, 3, 8, 8)
    outputs = build(model, [x], tmp_path)(x)
    with torch.no_grad():
        assert all(torch.allclose(*pair, atol=1e-5) for pair in zip(outputs, model(x), strict=True))
    assert len({tensor.untyped_storage().data_ptr() for tensor in (x, *outputs)}) == 6


def test_inputs_of_any_strides_and_nan_are_taken_as_pytorch_takes_them(tmp_path) -> None:
    model, x = nn.Sequential(nn.Conv2d(8, 20, 1), nn.ReLU()), torch.randn(2, 8, 6, 7)
    function = build(model, [x], tmp_path)
    strange = torch.randn(2, 7, 6, 8).permute(0, 3, 2, 1)
    assert error_of(model, function, [strange]) < 2e-6
    strange[0, 0, 0, 0] = math.nan
    with torch.no_grad():
        assert torch.equal(function(strange)[0].isnan(), model(strange).isnan())


def test_another_shape_is_refused(tmp_path) -> None:
    function = build(nn.Conv2d(3, 5, 3), [torch.randn(1, 3, 8, 8)], tmp_path)
    with pytest.raises(TuneError, match="must be float32"):
        function(torch.randn(1, 3, 9, 8))


def test_a_folder_of_another_processor_is_refused(tmp_path) -> None:
    x = torch.randn(1, 3, 8, 8)
    site = site_of(nn.Conv2d(3, 5, 3), [x], tmp_path)
    Kernels().build(site, {"vector": widths()[0]})
    (tmp_path / "features.txt").write_text("avx9000", "utf-8")
    with pytest.raises(TuneError, match="avx9000"):
        Kernels().load(site, {"vector": widths()[0]})


def test_without_a_compiler_the_engine_says_so(monkeypatch) -> None:
    monkeypatch.setenv("CXX", "no-such-compiler")
    assert "C++ compiler" in Kernels().unavailable(None)  # type: ignore[arg-type]


def test_a_graph_without_convolutions_is_not_taken(tmp_path) -> None:
    site = site_of(Net(lambda x: x.cumsum(0).exp()), [torch.randn(3, 3)], tmp_path)
    assert "no convolution" in Kernels().unsupported(site.graph)


def test_it_is_one_of_the_engines_and_offers_each_algorithm(tmp_path) -> None:
    assert "kernels" in [engine.name for engine in ENGINES]
    site = site_of(nn.Conv2d(16, 16, 3), [torch.randn(2, 16, 8, 8)], tmp_path)
    offered = Kernels().settings(site.graph, None)  # type: ignore[arg-type]
    assert {(choice["winograd"], choice["images"]) for choice in offered} == {
        (tile, images) for tile in (0, 2, 4) for images in (0, 1)
    }
    assert Kernels().settings(site.graph, None, "bf16") == []  # type: ignore[arg-type]


def test_weights_and_arena_begin_at_cache_lines_when_built_and_when_loaded(folders, monkeypatch) -> None:
    places: list[int] = []

    def noted(library, operations, weights, tables, arena):
        places.extend([weights.ctypes.data, arena])
        return Bound(library, operations, weights, tables, arena)

    monkeypatch.setattr("jumar.tune.engines.kernels.runner.Bound", noted)
    conv = nn.Conv2d(64, 64, 3)  # large enough that NumPy's own memory would begin 16 bytes behind a line
    site = site_of(Net(lambda conv, x: conv(x), conv), [torch.randn(1, 64, 9, 9)], folders())
    Kernels().build(site, {"vector": widths()[0]})
    Kernels().load(site, {"vector": widths()[0]})
    assert len(places) == 4
    assert [place % 64 for place in places] == [0, 0, 0, 0]


def test_calls_from_several_threads_at_once_keep_apart(tmp_path) -> None:
    network = Net(lambda one, two, x: two(one(x).relu()).cumsum(1), nn.Conv2d(3, 8, 3), nn.Conv2d(8, 4, 1))
    site = site_of(network, [torch.randn(2, 3, 12, 12)], tmp_path)
    run = Kernels().build(site, {"vector": widths()[0]})
    inputs = [torch.full((2, 3, 12, 12), float(number)) for number in range(4)]

    def calls(number: int) -> list[torch.Tensor]:
        with torch.no_grad():
            return [run(inputs[number])[0] for _ in range(100)]

    with torch.no_grad(), ThreadPoolExecutor(4) as pool:
        for given, made in zip(inputs, pool.map(calls, range(4)), strict=True):
            wanted = network(given)
            assert all(torch.allclose(output, wanted, rtol=1e-4, atol=1e-4) for output in made)


@pytest.mark.parametrize("panel", [1, 2, 3])
def test_a_chain_of_inverted_residuals_is_right_in_every_width(panel, tmp_path) -> None:
    """A single block does not show what one does to the memory of another."""

    def block(inputs: int, outputs: int, stride: int) -> nn.Sequential:
        width = 6 * inputs
        depthwise = nn.Conv2d(width, width, 3, stride, 1, groups=width)
        return nn.Sequential(
            nn.Conv2d(inputs, width, 1), nn.ReLU6(), depthwise, nn.ReLU6(), nn.Conv2d(width, outputs, 1)
        )

    torch.manual_seed(0)
    blocks = [block(32, 16, 1), block(16, 24, 2), block(24, 24, 1), block(24, 32, 2)]
    model = nn.Sequential(nn.Conv2d(3, 32, 3, 2, 1), nn.ReLU6(), *blocks).eval()
    x = torch.randn(1, 3, 224, 224)
    assert error_of(model, build(model, [x], tmp_path, panel=panel), [x]) < 2e-6


def test_products_of_equal_weights_may_have_panels_of_different_widths(folders, monkeypatch) -> None:
    """A layer that is called for images of two sizes is two products, and each has the width that is its fastest."""

    def time_of(product: Any, fields: dict[str, int], _repeats: int) -> int:
        is_small = product._bound.field(product._number, "row") < 40
        return 1000 * fields["nr"] if is_small else 1000 // fields["nr"]

    monkeypatch.setattr("jumar.tune.engines.kernels.search._Product._time", time_of)
    torch.manual_seed(0)
    model = Net(lambda conv, x: conv(x).mean((2, 3)) + conv(F.avg_pool2d(x, 2)).mean((2, 3)), nn.Conv2d(24, 70, 1))
    x = torch.randn(1, 24, 12, 10)
    assert error_of(model, build(model, [x], folders()), [x]) < 2e-6


@pytest.mark.parametrize("num_threads", [1, 2])
def test_a_depthwise_convolution_of_some_channels_leaves_the_others_for_who_reads_them(folders, num_threads) -> None:
    def gated(one: Any, two: Any, x: torch.Tensor) -> torch.Tensor:
        kept, deeper = one(x).split([lanes, 2 * lanes], 1)
        return torch.cat([kept, two(deeper)], 1)

    torch.manual_seed(0)
    lanes = widths()[0]
    depthwise = nn.Conv2d(2 * lanes, 2 * lanes, 3, padding=1, groups=2 * lanes)
    model, x = Net(gated, nn.Conv2d(7, 3 * lanes, 1), depthwise), torch.randn(2, 7, 11, 9)
    assert error_of(model, build(model, [x], folders(), num_threads), [x]) < 2e-6


def test_a_batch_goes_image_by_image_with_more_tensors_than_a_table_of_fixed_size_holds(folders) -> None:
    torch.manual_seed(0)
    layers = [nn.Conv2d(3, 2, 1) for _ in range(90)]
    model, x = Net(lambda *given: tuple(layer(given[-1]) for layer in given[:-1]), *layers), torch.randn(3, 3, 5, 4)
    outputs = build(model, [x], folders(), images=1)(x)
    with torch.no_grad():
        assert all(torch.allclose(*pair, atol=1e-5) for pair in zip(outputs, model(x), strict=True))


def test_a_batch_does_not_go_image_by_image_where_a_weight_is_read_as_images_are(folders) -> None:
    torch.manual_seed(0)
    model, x = Net(lambda conv, x: conv(x) * model.planes, nn.Conv2d(3, 5, 1)), torch.randn(3, 3, 5, 4)
    model.register_buffer("planes", torch.randn(3, 5, 5, 4))
    site = site_of(model, [x], folders())
    assert [choice["images"] for choice in Kernels().settings(site.graph, None)] == [0]  # type: ignore[arg-type]
    assert error_of(model, Kernels().build(site, {"vector": widths()[0]}), [x]) < 2e-6


def test_some_channels_times_a_value_of_fewer_blocks_read_within_the_memory_of_both(folders) -> None:
    torch.manual_seed(0)
    lanes, folder = widths()[0], folders()
    model = Net(lambda conv, x: x[:, :lanes] * torch.sigmoid(conv(x)), nn.Conv2d(2 * lanes, lanes, 1))
    x = torch.randn(1, 2 * lanes, 6, 5)
    assert error_of(model, build(model, [x], folder), [x]) < 2e-6
    operations = Program.load(folder).operations
    binary = operations[operations[:, PLACE["code"]] == CODES.index("BINARY")]
    assert binary[:, PLACE["blocks"]].tolist() == [1]


UNUSUAL: dict[str, Any] = {
    "the mean of all": lambda model, x: x + x.mean(None, keepdim=True),
    "a linear layer of one row": lambda model, x: F.linear(x.mean((2, 3)), model.row),
    "a linear layer of one bias": lambda model, x: F.linear(x.mean((2, 3)), model.matrix, model.bias),
}


@pytest.mark.parametrize("name", UNUSUAL)
def test_what_the_kernels_have_no_step_for_is_left_to_aten(name, folders) -> None:
    torch.manual_seed(0)
    model, x = Net(lambda conv, x: UNUSUAL[name](model, conv(conv(x))), nn.Conv2d(5, 5, 1)), torch.randn(2, 5, 6, 7)
    model.row, model.bias = nn.Parameter(torch.randn(5)), nn.Parameter(torch.randn(1))
    model.matrix = nn.Parameter(torch.randn(3, 5))
    assert error_of(model, build(model, [x], folders()), [x]) < 2e-6


def test_offsets_that_32_bits_do_not_hold_are_refused() -> None:
    tables = Blob(np.int32)
    tables.put(np.array([2**31 - 1, 1 - 2**31]))
    with pytest.raises(TuneError, match="cut the batch"):
        tables.put(np.arange(3) * 2**30)


def test_images_that_do_not_come_apart_are_refused_one_by_one_wherever_the_settings_come_from(folders) -> None:
    model = Net(lambda conv, x, y: conv(x).mean((2, 3)) + 0 * y.mean((2, 3)), nn.Conv2d(3, 5, 1))
    site = site_of(model, [torch.randn(3, 3, 5, 4), torch.randn(1, 5, 5, 4)], folders())
    with pytest.raises(TuneError, match="leave the batch whole"):
        Kernels().build(site, {"vector": widths()[0], "images": 1})
