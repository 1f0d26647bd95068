"""`torch.npu.NPUGraph`: what a capture records, what it leaves behind, and what a replay does."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, ClassVar

import pytest
import torch
from torch import nn

from jumar.device import DevicePlan, activate, emulate

activate(DevicePlan(real="never"))

Tensor = torch.Tensor
EXACT: Any = {"numerics": "exact", "unsupported": "fallback"}


@pytest.fixture(autouse=True)
def exact() -> Any:
    with emulate(**EXACT):
        torch.manual_seed(0)
        yield


def captured(function: Callable[[], Any]) -> tuple[Any, Any]:
    graph = torch.npu.NPUGraph()
    with torch.npu.graph(graph):
        result = function()
    return graph, result


def test_a_replay_reads_the_same_memory_again_and_writes_the_same_result() -> None:
    network = nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.BatchNorm1d(8), nn.Linear(8, 2)).npu().eval()
    x = torch.randn(3, 4, device="npu")
    with torch.no_grad():
        graph, y = captured(lambda: network(x))
        for _ in range(2):
            x.copy_(torch.randn(3, 4))
            graph.replay()
            assert torch.equal(y, network(x))


def test_a_result_is_not_a_number_before_the_first_replay() -> None:
    x = torch.ones(3, device="npu")
    graph, y = captured(lambda: x * 2)
    assert torch.isnan(y).all()
    graph.replay()
    assert y.tolist() == [2, 2, 2]


def test_what_was_there_before_is_as_it_was_after_the_capture() -> None:
    counter = torch.zeros(4, device="npu")

    def work() -> Tensor:
        counter.add_(1)
        counter[1:3] += 10
        return counter * 2

    graph, doubled = captured(work)
    assert counter.tolist() == [0, 0, 0, 0]
    graph.replay()
    graph.replay()
    assert counter.tolist() == [2, 22, 22, 2]
    assert doubled.tolist() == [4, 44, 44, 4]


def train_step(network: nn.Module, optimizer: Any, x: Tensor, target: Tensor) -> Tensor:
    optimizer.zero_grad(set_to_none=True)
    loss = nn.functional.mse_loss(network(x), target)
    loss.backward()
    optimizer.step()
    return loss.detach()


@pytest.mark.parametrize("make", [torch.optim.SGD, torch.optim.AdamW], ids=["sgd", "adamw"])
def test_a_whole_training_step_replays_as_it_runs(make: Any) -> None:
    keywords = {"lr": 0.05, "momentum": 0.9} if make is torch.optim.SGD else {"lr": 0.05, "capturable": True}
    network = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.BatchNorm1d(8), nn.Linear(8, 2)).npu()
    plain = copy.deepcopy(network)
    optimizer, own = make(network.parameters(), **keywords), make(plain.parameters(), **keywords)
    x, target = torch.randn(16, 4, device="npu"), torch.randn(16, 2, device="npu")
    for _ in range(2):
        train_step(network, optimizer, x, target)
        train_step(plain, own, x, target)
    optimizer.zero_grad(set_to_none=True)
    graph, loss = captured(lambda: train_step(network, optimizer, x, target))
    for _ in range(3):
        x.copy_(torch.randn(16, 4))
        graph.replay()
        assert float(loss) == float(train_step(plain, own, x, target))
    assert all(
        torch.equal(a, b) for a, b in zip(network.state_dict().values(), plain.state_dict().values(), strict=True)
    )


def test_each_replay_draws_new_random_numbers_and_the_capture_draws_none() -> None:
    torch.manual_seed(1)
    graph, drawn = captured(lambda: torch.rand(3, device="npu"))
    rows = []
    for _ in range(2):
        graph.replay()
        rows.append(drawn.cpu())
    torch.manual_seed(1)
    assert [row.tolist() for row in rows] == [torch.rand(3).tolist() for _ in range(2)]


def test_a_number_keeps_its_value_of_the_capture() -> None:
    x, factor = torch.ones(2, device="npu"), torch.tensor(3.0)
    graph, y = captured(lambda: x * factor)
    factor.fill_(7.0)
    graph.replay()
    assert y.tolist() == [3, 3]


def test_views_and_changes_of_shape_in_place_are_not_done_twice() -> None:
    x = torch.arange(6.0, device="npu").reshape(2, 3)

    def work() -> Tensor:
        made = x * 1
        made.t_()
        return made[1:] + 1

    graph, y = captured(work)
    for _ in range(2):
        graph.replay()
        assert y.tolist() == [[2.0, 5.0], [3.0, 6.0]]


def test_an_operator_of_the_vendor_replays() -> None:
    x, gamma = torch.randn(2, 8, device="npu"), torch.ones(8, device="npu")
    graph, (y, _) = captured(lambda: torch.ops.npu.npu_rms_norm(x, gamma, 1e-6))
    x.copy_(torch.randn(2, 8))
    graph.replay()
    assert torch.equal(y, torch.ops.npu.npu_rms_norm(x, gamma, 1e-6)[0])


@pytest.mark.parametrize(
    "wait",
    [
        lambda x: x.sum().item(),
        lambda x: x.cpu(),
        lambda x: x.nonzero(),
        lambda x: torch.ones(2).npu(),
        lambda x: x.masked_select(x > 0),
    ],
    ids=["item", "cpu", "nonzero", "to the device", "masked_select"],
)
def test_what_waits_for_the_device_cannot_be_captured(wait: Callable[[Tensor], Any]) -> None:
    x = torch.ones(3, device="npu")
    with pytest.raises(RuntimeError, match="not permitted while the stream is capturing"):
        captured(lambda: wait(x))
    assert not torch.npu.is_current_stream_capturing()
    assert (x + 1).tolist() == [2, 2, 2]


def test_the_stream_tells_that_it_is_capturing() -> None:
    graph, stream = torch.npu.NPUGraph(), torch.npu.Stream()
    with torch.npu.graph(graph, stream=stream):
        assert torch.npu.is_current_stream_capturing()
        assert torch.npu.current_stream() == stream
    assert not torch.npu.is_current_stream_capturing()


def test_the_default_stream_cannot_be_captured() -> None:
    with pytest.raises(RuntimeError, match="non-default stream"):
        torch.npu.NPUGraph().capture_begin()


def test_a_capture_within_another_is_refused() -> None:
    with pytest.raises(RuntimeError, match="another graph"), torch.npu.graph(torch.npu.NPUGraph()):
        captured(lambda: None)
    assert not torch.npu.is_current_stream_capturing()


def test_a_graph_is_captured_once_unless_it_is_reset() -> None:
    x = torch.ones(2, device="npu")
    graph, _ = captured(lambda: x + 1)
    with pytest.raises(RuntimeError, match="already owns a captured graph"), torch.npu.graph(graph):
        pass
    graph.reset()
    with pytest.raises(RuntimeError, match="without a preceding successful capture"):
        graph.replay()
    with torch.npu.graph(graph):
        y = x + 2
    graph.replay()
    assert y.tolist() == [3, 3]


def test_graphs_share_the_token_of_a_pool() -> None:
    x, pool = torch.ones(2, device="npu"), torch.npu.graph_pool_handle()
    first, second = torch.npu.NPUGraph(), torch.npu.NPUGraph()
    for graph in (first, second):
        with torch.npu.graph(graph, pool=pool):
            _ = x + 1
    assert first.pool() == second.pool() == pool != torch.npu.graph_pool_handle()


@pytest.mark.parametrize("num_callables", [1, 2])
def test_a_graphed_module_gives_the_results_and_gradients_of_the_module(num_callables: int) -> None:
    networks = [nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 4)).npu() for _ in range(num_callables)]
    plain = copy.deepcopy(networks)
    samples = tuple((torch.randn(5, 4, device="npu", requires_grad=True),) for _ in networks)
    graphed = torch.npu.make_graphed_callables(tuple(networks), samples)
    for _ in range(2):
        x = torch.randn(5, 4, device="npu", requires_grad=True)
        own = x.detach().clone().requires_grad_()
        for network in (*networks, *plain):
            network.zero_grad()
        y, expected = x, own
        for one, other in zip(graphed, plain, strict=True):
            y, expected = one(y), other(expected)
        y.square().sum().backward()
        expected.square().sum().backward()
        assert torch.equal(y, expected)
        assert torch.equal(x.grad, own.grad)
        pairs = zip(nn.ModuleList(networks).parameters(), nn.ModuleList(plain).parameters(), strict=True)
        assert all(torch.equal(one.grad, other.grad) for one, other in pairs)


def test_a_graphed_module_runs_as_before_in_the_mode_that_was_not_captured() -> None:
    network = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5)).npu()
    graphed = torch.npu.make_graphed_callables(network, (torch.randn(5, 4, device="npu"),))
    graphed.eval()
    x = torch.randn(2, 4, device="npu")  # another batch size than the graph's
    assert torch.equal(graphed(x), network[0](x))


def test_a_module_with_hooks_is_not_graphed() -> None:
    network = nn.Linear(2, 2).npu()
    network.register_forward_hook(lambda *_: None)
    with pytest.raises(RuntimeError, match="must not have hooks"):
        torch.npu.make_graphed_callables(network, (torch.ones(1, 2, device="npu"),))


def test_arguments_of_operators_with_a_handler_are_exchanged() -> None:
    library = torch.library.Library("api_test", "DEF")
    library.define("scale(Tensor x, int times, *, float plus=0.) -> Tensor")
    library.impl("scale", lambda x, times, *, plus=0.0: x * times + plus, "CompositeExplicitAutograd")

    @torch.npu.register_npu_graph_handler(["scale.default"])
    class Scale(torch.npu.NpuGraphOpHandler):
        UPDATE_SPECS: ClassVar[Any] = {"scale.default": [("arg", 1, "times")]}

    x, graph = torch.ones(2, device="npu"), torch.npu.NPUGraph()
    with torch.npu.graph(graph, auto_dispatch_capture=True):
        y = torch.ops.api_test.scale(x, 2) + torch.ops.api_test.scale(x, 3, plus=1.0)
    graph.replay()
    assert y.tolist() == [6, 6]
    graph.update([{"times": 5}, {"plus": 2.0}])
    graph.replay()
    assert y.tolist() == [10, 10]
    graph.update([{"times": 1}])
    graph.replay()
    assert y.tolist() == [4, 4]
    with pytest.raises(RuntimeError, match="2 operators of the graph can be updated"):
        graph.update([{}, {}, {}])


def test_a_graph_without_handlers_takes_no_update() -> None:
    x = torch.ones(2, device="npu")
    graph, _ = captured(lambda: x + 1)
    with pytest.raises(RuntimeError, match="auto_dispatch_capture=True"):
        graph.update([{}])


def test_the_lengths_of_attention_are_exchanged_by_name() -> None:
    from jumar.npu.runtime.graphs.handlers import HANDLERS

    name = "npu_fused_infer_attention_score.default"
    keys = [key for _, _, key in HANDLERS[name].get_update_specs(name)]
    assert keys == ["actual_seq_lengths", "actual_seq_lengths_kv"]


def test_a_task_group_takes_new_arguments() -> None:
    x, out, stream = torch.ones(2, device="npu"), torch.zeros(2, device="npu"), torch.npu.Stream()
    graph = torch.npu.NPUGraph()
    with torch.npu.graph(graph, stream=stream):
        torch.npu.graph_task_group_begin(stream)
        torch.add(x, 1, out=out)
        handle = torch.npu.graph_task_group_end(stream)
        y = out * 10
    graph.replay()
    assert y.tolist() == [20, 20]
    torch.npu.graph_task_update_begin(stream, handle)
    torch.add(x, 4, out=out)
    torch.npu.graph_task_update_end(stream)
    assert out.tolist() == [2, 2]
    graph.replay()
    assert (out.tolist(), y.tolist()) == ([5, 5], [50, 50])
    torch.npu.graph_task_update_begin(stream, handle)
    torch.mul(x, 4, out=out)
    with pytest.raises(RuntimeError, match=r"which are aten\.add\.out; got aten\.mul\.out"):
        torch.npu.graph_task_update_end(stream)


def test_a_task_group_belongs_to_a_capture() -> None:
    stream = torch.npu.Stream()
    for call in (torch.npu.graph_task_group_begin, torch.npu.graph_task_group_end, torch.npu.graph_task_update_end):
        with pytest.raises(RuntimeError, match="on this stream"):
            call(stream)


def test_a_dump_of_a_graph_is_refused() -> None:
    with pytest.raises(NotImplementedError, match=r"NPUGraph\.debug_dump is not emulated"):
        torch.npu.NPUGraph().debug_dump("graph.json")
