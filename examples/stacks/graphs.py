"""A graph network in plain PyTorch: messages are gathered along edges and scattered to nodes, attention by node."""

import torch
from torch import nn

DEVICE = torch.device("cuda")


class Attention(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.project, self.score = nn.Linear(size, size), nn.Linear(2 * size, 1)

    def forward(self, x, edges):
        source, target = edges
        hidden = self.project(x)
        score = nn.functional.leaky_relu(self.score(torch.cat([hidden[source], hidden[target]], 1)), 0.2).squeeze(1)
        nodes = x.shape[0]
        greatest = torch.full((nodes,), -torch.inf, device=x.device).scatter_reduce(0, target, score, "amax")
        weight = (score - greatest[target]).exp()
        total = torch.zeros(nodes, device=x.device).scatter_add(0, target, weight)
        messages = hidden[source] * (weight / total[target]).unsqueeze(1)
        return torch.relu(torch.zeros_like(hidden).index_add(0, target, messages) + hidden)


class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([Attention(8), Attention(8)])
        self.last = nn.Linear(8, 3)

    def forward(self, x, edges, graph):
        for layer in self.layers:
            x = layer(x, edges)
        pooled = torch.zeros(4, 8, device=x.device).index_reduce(0, graph, x, "mean", include_self=False)
        return self.last(pooled)


def main():
    torch.manual_seed(0)
    network = Network().to(DEVICE)
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-2)
    x, edges = torch.randn(40, 8).to(DEVICE), torch.randint(0, 40, (2, 160)).to(DEVICE)
    graph, y = torch.arange(40).div(10, rounding_mode="floor").to(DEVICE), torch.tensor([0, 1, 2, 0]).to(DEVICE)
    for _ in range(3):
        loss = nn.functional.cross_entropy(network(x, edges, graph), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        print(f"loss {loss.item():.6f}")


if __name__ == "__main__":
    main()
