"""Scripts with two networks and two optimizers, and one that draws what it trains on from its own past."""

from __future__ import annotations

import copy
import random

import torch
from torch import nn
from torch.nn import functional

from .knobs import Run


def gan(run: Run) -> None:
    """A generator with batch norm against a discriminator; each has its Adam."""
    torch.manual_seed(run.seed)
    make = nn.Sequential(
        nn.Linear(6, 32),
        nn.BatchNorm1d(32, momentum=run.of("norm momentum", 0.1)),
        nn.ReLU(),
        nn.Linear(32, 10),
    )
    judge = nn.Sequential(nn.Linear(10, 32), nn.LeakyReLU(run.of("slope", 0.2)), nn.Linear(32, 1))
    make, judge = run.to(make, judge)
    of_make = torch.optim.Adam(make.parameters(), lr=2e-3, betas=(run.of("make beta", 0.5), 0.999))
    of_judge = torch.optim.Adam(
        judge.parameters(),
        lr=run.of("judge lr", 2e-3),
        betas=(run.of("judge beta", 0.5), 0.999),
        eps=run.of("eps", 1e-8),
    )
    generator = torch.Generator().manual_seed(2)
    batches = [torch.randn(16, 10, generator=generator) for _ in range(4)]
    noises = [torch.randn(16, 6, generator=generator) for _ in range(4)]
    with run.recorded(make):
        for batch, noise in zip(batches, noises, strict=True):
            real, z = run.to(batch, noise)
            fake = make(z)
            ones = torch.full((16, 1), run.of("ones", 1.0), device=real.device)  # @ones
            zeros = torch.zeros(16, 1, device=real.device)
            if not run.of("keeps gradients", False):
                judge.zero_grad()
            on_real = functional.binary_cross_entropy_with_logits(judge(real), ones)
            seen = fake if run.of("no detach", False) else fake.detach()
            on_fake = functional.binary_cross_entropy_with_logits(judge(seen), zeros)
            cost = on_real + on_fake * run.of("weight", 1.0)  # @weight
            cost.backward(retain_graph=run.of("no detach", False))  # @backward
            of_judge.step()  # @judge step
            if not run.of("no detach", False):
                make.zero_grad()
            verdict = judge(make(z) if run.of("no detach", False) else fake)
            loss = functional.binary_cross_entropy_with_logits(verdict, ones)
            loss.backward()  # @make backward
            of_make.step()  # @make step


def penalty(run: Run) -> None:
    """A critic with gradient penalty and clipped weights, twice per step of the generator."""
    torch.manual_seed(run.seed)
    make, critic = nn.Linear(5, 8), nn.Sequential(nn.Linear(8, 24), nn.SiLU(), nn.Linear(24, 1))
    make, critic = run.to(make, critic)
    of_make = torch.optim.RMSprop(make.parameters(), lr=1e-3, alpha=run.of("alpha", 0.99))
    of_critic = torch.optim.RMSprop(critic.parameters(), lr=1e-3, alpha=run.of("critic alpha", 0.99))
    generator = torch.Generator().manual_seed(6)
    with run.recorded(make):
        for _ in range(3):
            for _ in range(2):
                real, z = run.to(torch.randn(12, 8, generator=generator), torch.randn(12, 5, generator=generator))
                mix = run.to(torch.rand(12, 1, generator=generator))
                fake = make(z).detach()
                between = (mix * real + (1 - mix) * fake).requires_grad_()
                (slope,) = torch.autograd.grad(critic(between).sum(), between, create_graph=True)
                norm = slope.norm(run.of("norm", 2), dim=1)  # @norm
                cost = (
                    critic(fake).mean() - critic(real).mean() + run.of("penalty", 10.0) * ((norm - 1) ** 2).mean()
                )  # @cost
                of_critic.zero_grad()
                cost.backward()
                of_critic.step()  # @critic step
                with torch.no_grad():
                    for parameter in critic.parameters():
                        parameter.clamp_(-run.of("clip", 0.2), 0.2)  # @clip
            loss = -critic(make(run.to(torch.randn(12, 5, generator=generator)))).mean()
            of_make.zero_grad()
            loss.backward()
            of_make.step()  # @make step


def _drawn(size: int | tuple[()], generator: torch.Generator) -> torch.Tensor:
    return torch.randn(size, generator=generator)


def replay(run: Run) -> None:
    """Q-learning: a buffer of past transitions, Python's `random` for what is drawn, a target network."""
    torch.manual_seed(run.seed)
    random.seed(run.of("python seed", 1))
    values = nn.Sequential(nn.Linear(4, 24), nn.ReLU(), nn.Linear(24, 3))
    frozen = copy.deepcopy(values)
    values, frozen = run.to(values, frozen)
    optimizer = torch.optim.Adam(values.parameters(), lr=run.of("lr", 1e-3), amsgrad=run.of("amsgrad", False))
    generator = torch.Generator().manual_seed(7)
    buffer = [
        (
            torch.randn(4, generator=generator),
            i % 3,
            torch.randn((), generator=generator),
            torch.randn(4, generator=generator),
        )
        for i in range(24)
    ]
    baseline = run.to(torch.zeros(()))
    with run.recorded(values):
        for step in range(6):
            chosen = random.sample(buffer, 8)
            state, after = run.to(torch.stack([c[0] for c in chosen]), torch.stack([c[3] for c in chosen]))
            action, reward = run.to(torch.tensor([c[1] for c in chosen]), torch.stack([c[2] for c in chosen]))
            reward = reward.clamp(-run.of("clip", 1.0), 1.0)  # @clip
            got = values(state).gather(1, action[:, None])[:, 0]
            with torch.no_grad():
                best = frozen(after).amax(1) if not run.of("mean", False) else frozen(after).mean(1)  # @best
                wanted = reward - baseline + run.of("gamma", 0.9) * best  # @gamma
            loss = functional.smooth_l1_loss(got, wanted, beta=run.of("delta", 1.0))  # @loss
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(values.parameters(), run.of("norm", 0.05))  # @norm
            optimizer.step()  # @step
            baseline = baseline * run.of("baseline", 0.8) + reward.mean() * 0.2  # @baseline
            if step % run.of("period", 2) == 1:
                with torch.no_grad():
                    for a, b in zip(frozen.parameters(), values.parameters(), strict=True):
                        a.copy_(a * (1 - run.of("tau", 0.5)) + b * run.of("tau", 0.5))  # @sync
            buffer[step] = (
                buffer[step][0],
                buffer[step][1],
                loss.detach().cpu() * run.of("stored", 1.0),
                buffer[step][3],
            )  # @stored
