"""The shipped CUDA scripts run unchanged where CPU kernels stand in for CUDA."""

from __future__ import annotations

import io
import re
import socket
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from example_runs import CHECKPOINTS, EXAMPLES, SMALL, assert_same_checkpoints, finish, launch

ALL = sorted(SMALL)
TAKES_CPU = ["gpt", "imagenet"]
"""Examples that also train without CUDA, so that their losses can be compared."""


@pytest.mark.parametrize("example", ALL)
def test_three_steps_train_and_give_finite_losses(run, example):
    losses = [float(loss) for loss in run(example).losses]
    assert len(losses) >= 3
    assert all(np.isfinite(losses))


@pytest.mark.parametrize("example", TAKES_CPU)
def test_weights_after_three_steps_equal_those_of_a_cpu_run_bit_for_bit(run, example):
    # the fused optimizer is what the script chooses on CUDA only
    reference = run(example, kind="cpu")
    assert run(example).losses[:1] == reference.losses[:1]
    if example == "imagenet":
        assert run(example).losses == reference.losses
        assert_same_checkpoints(run(example), reference, example)


@pytest.mark.parametrize("example", ALL)
def test_checkpoints_are_tagged_as_those_of_a_cuda_machine(run, example):
    file = zipfile.ZipFile(run(example).folder / CHECKPOINTS[example])
    [pickled] = [file.read(name) for name in file.namelist() if name.endswith("data.pkl")]
    assert b"cuda:0" in pickled
    assert b"npu" not in pickled


@pytest.mark.parametrize("example", ALL)
def test_checkpoints_load_on_a_machine_without_cuda(run, example):
    seen: set[str] = set()
    torch.load(
        io.BytesIO((run(example).folder / CHECKPOINTS[example]).read_bytes()),
        map_location=lambda storage, tag: (seen.add(tag), storage)[1],
    )
    assert seen <= {"cuda:0", "cpu"}


def test_the_same_seed_gives_the_same_run_and_another_seed_another(run):
    again = run("gpt", "--weight_decay", "0.1")
    other = run("gpt", "--seed", "5")
    assert run("gpt").losses == again.losses
    assert run("gpt").losses != other.losses


def test_imagenet_resumes_where_it_stopped(run):
    first = run("imagenet")
    resumed = run("imagenet", "--epochs", "2", "--resume", str(first.folder / CHECKPOINTS["imagenet"]))
    whole = run("imagenet", "--epochs", "2")
    assert "(epoch 1)" in resumed.output
    # the order of the pictures goes on from the seed, so only the shape of the run is compared
    assert len(whole.losses) == 2 * len(resumed.losses)


def test_imagenet_evaluates_a_checkpoint_to_the_loss_it_had_when_saved(run):
    first = run("imagenet")
    evaluated = run("imagenet", "--evaluate", "--resume", str(first.folder / CHECKPOINTS["imagenet"]))
    assert evaluated.losses == first.losses[-1:]


def test_imagenet_trains_with_worker_processes_and_pinned_memory(run):
    assert run("imagenet", "--workers", "1").losses == run("imagenet").losses


def test_shufflenet_evaluates_the_averaged_weights_of_the_newest_checkpoint(run):
    first = run("shufflenet")
    evaluated = run("shufflenet", "--eval", folder=first.folder)
    assert evaluated.losses == first.losses[-1:]


def test_shufflenet_goes_on_from_the_newest_checkpoint(run, tmp_path):
    run("shufflenet", folder=tmp_path)
    further = run("shufflenet", "--auto-continue", "--total-iters", "4", folder=tmp_path)
    assert "load from ./models/checkpoint-000003.pth.tar" in further.output
    assert "TRAIN Iter 4" in further.output


def test_gpt_goes_on_from_its_checkpoint(run):
    first = run("gpt")
    further = run("gpt", "--init_from", "resume", "--max_iters", "4", folder=first.folder)
    assert "iter 3: loss" in further.output


@pytest.mark.parametrize(
    ("example", "options"),
    [
        ("imagenet", ("--amp",)),
        ("shufflenet", ("--amp",)),
        ("gpt", ("--dtype", "float16", "--compile")),
        ("gpt", ("--dtype", "bfloat16")),
    ],
    ids=lambda value: value if isinstance(value, str) else "-".join(value).replace("--", ""),
)
def test_mixed_precision_stays_near_full_precision(run, example, options):
    mixed, full = run(example, *options), run(example)
    assert mixed.losses != full.losses
    # the loss scaler may skip the first step, so only the first loss is of the same weights
    assert float(mixed.losses[0]) == pytest.approx(float(full.losses[0]), rel=0.02)


def test_the_reference_says_that_it_is_a_stand_in(run):
    assert "CPU kernels standing in for CUDA" in run("shufflenet").output


def test_the_data_of_shufflenet_is_the_same_each_time(run, tmp_path):
    first = np.load(run("shufflenet").folder / "data/gratings.npz")
    second = np.load(run("shufflenet", "--total-iters", "1", folder=tmp_path).folder / "data/gratings.npz")
    assert np.array_equal(first["images"], second["images"])
    assert {0, 1, 2, 3, 4, 5, 6, 7, 8, 9} == set(second["labels"].tolist())


def test_the_pictures_of_imagenet_depend_on_index_and_seed_only(monkeypatch):
    monkeypatch.syspath_prepend(str(EXAMPLES / "imagenet"))
    from synthetic import SyntheticImages

    first, again, other = SyntheticImages(8, 16), SyntheticImages(8, 16), SyntheticImages(8, 16, seed=1)
    assert torch.equal(first[3][0], again[3][0])
    assert not torch.equal(first[3][0], other[3][0])
    assert not torch.equal(first[3][0], first[4][0])
    with pytest.raises(IndexError):
        first[8]
    del sys.modules["synthetic"]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.mark.slow
def test_imagenet_trains_on_two_ranks_in_step(run, tmp_path):
    options = [*SMALL["imagenet"], "--multiprocessing-distributed", "--dist-url", f"tcp://127.0.0.1:{free_port()}"]
    script = EXAMPLES / "imagenet" / "train.py"
    done = finish(launch(script, options, tmp_path, "cuda-stand-in"), tmp_path)
    assert "Use GPU: 1 for training" in done.output
    # both ranks print the accuracy over both, after the all-reduce
    accuracies = re.findall(r"\* (Acc@1 [\d.]+ Acc@5 [\d.]+)", done.output)  # on one line when both print at once
    assert len(accuracies) == 2
    assert len(set(accuracies)) == 1


@pytest.mark.slow
def test_gpt_trains_on_two_ranks_under_torchrun(run, tmp_path):
    folder, port = Path(tmp_path), free_port()
    script = EXAMPLES / "gpt" / "train.py"
    processes = [
        launch(
            script,
            SMALL["gpt"],
            folder,
            "cuda-stand-in",
            {
                "RANK": str(rank),
                "LOCAL_RANK": str(rank),
                "WORLD_SIZE": "2",
                "MASTER_ADDR": "127.0.0.1",
                "MASTER_PORT": str(port),
            },
        )
        for rank in range(2)
    ]
    try:
        runs = [finish(process, folder) for process in processes]
    finally:
        for process in processes:
            process.kill()
            process.communicate()
    assert len(runs[0].losses) >= 3
    assert (folder / CHECKPOINTS["gpt"]).is_file()
