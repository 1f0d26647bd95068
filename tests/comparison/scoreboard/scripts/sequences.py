"""Scripts over sequences and sets: speech with CTC, a variational model, detection with changing shapes."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional

from .knobs import Run


class Speech(nn.Module):
    """A recurrent layer and a head."""

    def __init__(self, kind: str = "GRU", dropout: float = 0.0) -> None:
        super().__init__()
        self.front = nn.Linear(7, 12)
        self.drop = nn.Dropout(dropout)
        self.layer = getattr(nn, kind)(12, 16, num_layers=2, batch_first=True, bidirectional=True)
        self.head = nn.Linear(32, 6)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return scores (batch, time, symbol)."""
        hidden = self.drop(functional.relu(self.front(x)))  # @dropout
        return self.head(self.layer(hidden)[0])


class Cells(nn.Module):
    """The same recurrent calculation, one cell a time step."""

    def __init__(self, kind: str = "GRUCell") -> None:
        super().__init__()
        self.cell = getattr(nn, kind)(7, 16)
        self.head = nn.Linear(16, 6)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return scores (batch, time, symbol)."""
        state, outputs = None, []
        for at in range(x.shape[1]):
            state = self.cell(x[:, at], state)
            outputs.append(state[0] if isinstance(state, tuple) else state)
        return self.head(torch.stack(outputs, 1))


def speech(run: Run) -> None:
    """A bidirectional recurrent network trained with CTC; clipped gradients."""
    torch.manual_seed(run.seed)
    net = Cells(run.of("cell", "")) if run.of("cell", "") else Speech(run.of("kind", "GRU"), run.of("dropout", 0.0))
    net = run.to(net)
    optimizer = torch.optim.AdamW(net.parameters(), lr=2e-3, weight_decay=run.of("decay", 1e-2))
    generator = torch.Generator().manual_seed(8)
    with run.recorded(net):
        for _ in range(3):
            x = run.to(torch.randn(4, 12, 7, generator=generator))
            targets = run.to(torch.randint(1, 6, (4, 4), generator=generator))
            log_probs = net(x).log_softmax(run.of("dim", -1)).transpose(0, 1)  # @softmax
            loss = functional.ctc_loss(
                log_probs,
                targets,
                [12, 12, 10, run.of("length", 9)],
                [4, 3, 4, 2],
                blank=run.of("blank", 0),
                reduction=run.of("reduction", "mean"),
                zero_infinity=run.of("zero", False),
            )  # @ctc
            loss = loss.mean() if loss.dim() else loss
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(net.parameters(), run.of("norm", 0.1))  # @clip
            optimizer.step()  # @step


class Gated(nn.Module):
    """Latent variables, gated layers and dropout."""

    def __init__(self, run: Run) -> None:
        super().__init__()
        self.encode, self.gate, self.decode = nn.Linear(10, 12), nn.Linear(6, 16), nn.Linear(8, 10)
        self.drop = nn.Dropout(run.of("dropout", 0.2))
        self.swapped = run.of("swapped", False)
        self.tanh = run.of("tanh", False)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Return what is rebuilt, mean and log variance."""
        mean, log_variance = self.encode(x).chunk(2, -1)
        z = mean + torch.randn_like(mean) * (0.5 * log_variance).exp()
        if self.swapped:
            gate, value = self.gate(z).chunk(2, -1)  # @swap
        else:
            value, gate = self.gate(z).chunk(2, -1)  # @swap
        gated = value * (gate.tanh() if self.tanh else gate.sigmoid())  # @swap @tanh
        return self.decode(self.drop(gated)), mean, log_variance  # @drop


def variational(run: Run) -> None:
    """Rebuild inputs; the weight of the divergence and the learning rate follow schedules."""
    torch.manual_seed(run.of("seed", run.seed))
    net = run.to(Gated(run))
    optimizer = torch.optim.Adam(net.parameters(), lr=2e-3)
    warm = run.of("warm", 4)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, (step + 1) / warm))
    generator = torch.Generator().manual_seed(9)
    data = torch.randn(64, 10, generator=generator)
    torch.manual_seed(run.of("late seed", 11))
    with run.recorded(net):
        for step in range(4):
            if step == run.of("extra draw at", 99):
                torch.rand(3)
            x = run.to(data[: run.of("rows", 64)])  # @rows
            rebuilt, mean, log_variance = net(x)
            error = functional.mse_loss(rebuilt, x, reduction=run.of("reduction", "mean"))  # @error
            apart = -0.5 * (1 + log_variance - mean**2 - log_variance.exp()).mean()
            loss = error + min(1.0, run.of("rise", 0.1) * (step + 1)) * apart  # @rise
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()  # @step
            if not run.of("no schedule", False):
                schedule.step()


def detection(run: Run) -> None:
    """Boxes of changing number: decode, choose the best, match, and two losses."""
    torch.manual_seed(run.seed)
    net = run.to(
        nn.Sequential(nn.Linear(11, 32), nn.LayerNorm(32, eps=run.of("eps", 1e-5)), nn.ReLU(), nn.Linear(32, 5))
    )
    optimizer = torch.optim.SGD(
        [
            {"params": net[0].parameters(), "lr": 0.01},
            {"params": [p for m in net[1:] for p in m.parameters()], "lr": run.of("head lr", 0.02)},
        ],
        momentum=0.9,
        nesterov=run.of("nesterov", False),
    )
    generator = torch.Generator().manual_seed(10)
    with run.recorded(net):
        for step in range(4):
            places = run.to(torch.randn(40 + 3 * step, 11, generator=generator))
            truth = run.to(torch.rand(3 + step, 4, generator=generator))
            out = net(places)
            deltas, score = out.split([4, 1], 1)
            boxes = deltas.sigmoid() * run.of("scale", 1.0)  # @scale
            best = score[:, 0].topk(run.of("top", 24)).indices  # @top
            kept = boxes[best]  # @kept
            apart = torch.cdist(kept, truth, p=run.of("p", 1.0))  # @apart
            nearest = apart.argmin(1)
            match = truth[nearest]
            is_object = (apart.amin(1) < run.of("near", 0.9)).float()  # @near
            place = functional.smooth_l1_loss(kept, match, beta=run.of("beta", 0.1), reduction="none").sum(1)  # @place
            place = (place * is_object).sum() / is_object.sum().clamp(min=1.0)
            focal = functional.binary_cross_entropy_with_logits(score[best, 0], is_object, reduction="none")
            focal = (focal * (1 - (-focal).exp()) ** run.of("gamma", 2.0)).mean()  # @gamma
            loss = place + focal * run.of("balance", 0.5)  # @balance
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()  # @step
