"""A plan computes what its graph computes, whichever way it is cut, and leaves the process as it was."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from plan_models import ENGINES, Centred, Convolutions, Shared, Tokens, exported, in_two, site_of, whole

from jumar.tune.model.errors import TuneError
from jumar.tune.plan import Plan, Region
from jumar.tune.plan.build import build, load

IMAGES, WORDS = (6, 3, 8, 8), (4, 7, 16)


@pytest.fixture(scope="module")
def convolutions():
    torch.manual_seed(0)
    model, image = Convolutions(), torch.randn(IMAGES)
    return *exported(model, image), image


@pytest.fixture(scope="module")
def tokens():
    torch.manual_seed(0)
    model, words = Tokens(), torch.randn(WORDS)
    return *exported(model, words), words


def outcome(folder, plan, graph, constants, example):
    with torch.no_grad():
        return build(plan, site_of(folder, graph, constants, [example]), ENGINES)(example)[0]


@pytest.mark.parametrize("plan", [
    whole(), whole(batch=(3, 3)), whole(batch=(4, 2)), whole(batch=(1,) * 6), whole(num_threads=1),
    whole(batch=(3, 3), streams=2), whole(batch=(2, 2, 2), streams=2), whole(memory="keep"),
    whole(layout="channels_last"), whole(layout="channels_last", batch=(3, 3), streams=2, memory="keep", num_threads=1),
], ids=str)  # fmt: skip
def test_every_way_to_run_a_plan_gives_the_graphs_outputs_and_strides(tmp_path, convolutions, plan):
    graph, constants, image = convolutions
    expected = outcome(tmp_path / "plain", whole(), *convolutions)
    made = outcome(tmp_path / "made", plan, graph, constants, image)
    torch.testing.assert_close(made, expected)
    assert made.stride() == expected.stride()


def test_regions_hand_their_values_on(tmp_path, convolutions):
    graph = convolutions[0]
    expected = outcome(tmp_path / "plain", whole(), *convolutions)
    for after in range(1, len(graph.nodes)):
        try:
            plan = in_two(graph, after)
            made = outcome(tmp_path / str(after), plan, *convolutions)
        except TuneError:  # a cut through an operator of several outputs
            continue
        assert torch.equal(expected, made)


def test_an_expanded_token_and_heads_follow_the_batch(tmp_path, tokens):
    expected = outcome(tmp_path / "plain", whole(), *tokens)
    torch.testing.assert_close(outcome(tmp_path / "cut", whole(batch=(3, 1)), *tokens), expected)


def test_pieces_of_an_engine_that_reuses_its_outputs_do_not_overwrite_each_other(tmp_path, convolutions):
    plan = Plan(regions=[Region(nodes=(), engine="reusing")], batch=(3, 3))
    torch.testing.assert_close(
        outcome(tmp_path / "made", plan, *convolutions), outcome(tmp_path / "plain", whole(), *convolutions)
    )


@pytest.mark.parametrize("model", [Centred(), Shared()])
def test_rows_that_depend_on_each_other_are_not_cut(tmp_path, model):
    graph, constants = exported(model, example := torch.randn(4, 5))
    with pytest.raises(TuneError, match="rows depend on each other"):
        outcome(tmp_path / "made", whole(batch=(2, 2)), graph, constants, example)


class Scaled(torch.nn.Module):
    """Rows depend on each other as soon as one has a value above 1."""

    def forward(self, x):
        return x / x.abs().max().clamp(min=1.0)


class Halves(torch.nn.Module):
    """Reads parts of each row, what has the rows' type, and what has their number."""

    def forward(self, x):
        left, right = x.split(2, -1)
        most, _ = x.max(-1, keepdim=True)
        return left * right.relu() + most + torch.arange(2).type_as(x.double()).float() + x.new_ones(2)


def test_rows_that_depend_on_each_other_for_other_values_only_are_not_cut_either(tmp_path):
    graph, constants = exported(Scaled(), example := torch.rand(4, 5))
    with pytest.raises(TuneError, match=r"aten::max reads all rows.*rows depend on each other"):
        outcome(tmp_path / "made", whole(batch=(2, 2)), graph, constants, example)


@pytest.mark.parametrize(
    "function", [lambda x: x + x.unbind(0)[0], lambda x: x + x.max(0)[0], lambda x: x @ (x.t() @ x)]
)
def test_what_is_made_of_all_rows_is_not_cut(tmp_path, function):
    class Model(torch.nn.Module):
        def forward(self, x):
            return function(x)

    graph, constants = exported(Model(), example := torch.zeros(4, 5))
    with pytest.raises(TuneError, match="does not carry the batch"):
        outcome(tmp_path / "made", whole(batch=(2, 2)), graph, constants, example)


def test_parts_of_each_row_and_what_is_shaped_like_rows_are_cut(tmp_path):
    graph, constants = exported(Halves(), example := torch.randn(6, 4))
    expected = outcome(tmp_path / "plain", whole(), graph, constants, example)
    torch.testing.assert_close(outcome(tmp_path / "cut", whole(batch=(3, 3)), graph, constants, example), expected)


@pytest.mark.parametrize("plan", [whole(batch=(3, 3)), whole(batch=(4, 2)), whole(batch=(2, 2, 2), streams=2)], ids=str)
def test_outputs_that_are_expanded_come_out_of_the_pieces(tmp_path, plan):
    class Expanded(torch.nn.Module):
        def forward(self, x):
            return x.sum(-1, keepdim=True).expand(-1, 5), x.new_ones(()).expand(x.shape[0], 2)

    graph, constants = exported(Expanded(), example := torch.randn(6, 4))
    with torch.no_grad():
        made = build(plan, site_of(tmp_path, graph, constants, [example]), ENGINES)(example)
    expected = Expanded()(example)
    assert [one.stride() for one in made] == [one.stride() for one in expected]
    torch.testing.assert_close(made, expected)


@pytest.mark.parametrize(("sizes", "sentence"), [((4, 4), "add up"), ((6, 0), "add up")])
def test_pieces_must_be_the_batch(tmp_path, convolutions, sizes, sentence):
    with pytest.raises(TuneError, match=sentence):
        outcome(tmp_path / "made", whole(batch=sizes), *convolutions)


def test_an_output_without_the_batch_is_not_cut(tmp_path):
    class Sum(torch.nn.Module):
        def forward(self, x):
            return x.sum()

    graph, constants = exported(Sum(), example := torch.randn(4, 5))
    with pytest.raises(TuneError, match="does not carry the batch"):
        outcome(tmp_path / "made", whole(batch=(2, 2)), graph, constants, example)


def test_a_plan_is_loaded_from_what_its_build_left(tmp_path, convolutions):
    graph, constants, image = convolutions
    plan = replace(in_two(graph, 4), batch=(4, 2), layout="channels_last")
    built = build(plan, site_of(tmp_path, graph, constants, [image]), ENGINES)
    loaded = load(plan, replace(site_of(tmp_path, graph, constants, []), example=[]), ENGINES)
    with torch.no_grad():
        assert torch.equal(built(image)[0], loaded(image)[0])


def test_engines_are_told_their_threads_and_the_process_gets_its_own_back(tmp_path, convolutions):
    graph, constants, image = convolutions
    before = torch.get_num_threads()
    function = build(whole(num_threads=3), site_of(tmp_path, graph, constants, [image]), ENGINES)
    with torch.no_grad():
        function(image)
    assert (tmp_path / "built").read_text() == "3 3"
    assert torch.get_num_threads() == before


@pytest.mark.parametrize(("region", "sentence"), [
    (Region(nodes=(), engine="elsewhere"), "needs the engine elsewhere"),
    (Region(nodes=(), engine="plain", version="0"), "measured with plain 0 and here is 1"),
    (Region(nodes=(3,), engine="plain"), "every node of its graph once"),
])  # fmt: skip
def test_a_plan_that_is_not_of_here_is_refused(tmp_path, convolutions, region, sentence):
    with pytest.raises(TuneError, match=sentence):
        outcome(tmp_path / "made", Plan(regions=[region]), *convolutions)


def test_regions_in_the_wrong_order_are_refused(tmp_path, convolutions):
    plan = in_two(convolutions[0], 4)
    with pytest.raises(TuneError, match="reads what comes after it"):
        outcome(tmp_path / "made", replace(plan, regions=plan.regions[::-1]), *convolutions)


@given(
    st.builds(
        Plan,
        regions=st.lists(
            st.builds(Region, nodes=st.lists(st.integers(0, 99)).map(tuple), engine=st.text(max_size=5)), max_size=3
        ).map(tuple),
        batch=st.lists(st.integers(1, 9), max_size=4).map(tuple),
        num_threads=st.none() | st.integers(1, 64),
        memory=st.sampled_from(["default", "keep"]),
        streams=st.integers(1, 4),
        layout=st.sampled_from(["default", "channels_last"]),
    )
)
@settings(derandomize=True)
def test_a_plan_goes_through_a_policy_and_back(plan):
    assert Plan.of(plan.policy()) == plan


def test_kept_memory_is_given_back_before_a_plan_that_keeps_none(tmp_path, convolutions):
    from jumar.tune.model import malloc

    graph, constants, image = convolutions
    keeping = build(whole(memory="keep"), site_of(tmp_path / "a", graph, constants, [image]), ENGINES)
    plain = build(whole(), site_of(tmp_path / "b", graph, constants, [image]), ENGINES)
    with torch.no_grad():
        keeping(image)
        assert malloc._is_kept
        plain(image)
    assert not malloc._is_kept
