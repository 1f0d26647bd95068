"""Proximal policy optimization as cleanrl writes it: one file, a vector of environments, a buffer on the device."""

import torch
from torch import nn
from torch.distributions import Categorical

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
STEPS, ENVIRONMENTS = 16, 4


class Walk:
    """Walk towards zero on a line: the reward is the nearness."""

    def reset(self):
        self.place = torch.linspace(-2, 2, ENVIRONMENTS)
        return self._seen()

    def step(self, action):
        self.place = self.place + torch.where(action.cpu() == 1, 0.2, -0.2)
        return self._seen(), -self.place.abs(), self.place.abs() > 3

    def _seen(self):
        return torch.stack([self.place, self.place**2], dim=1)


class Agent(nn.Module):
    def __init__(self):
        super().__init__()
        self.critic = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 1))
        self.actor = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 2))
        for layer in (*self.critic, *self.actor):
            if isinstance(layer, nn.Linear):
                nn.init.orthogonal_(layer.weight, 2**0.5)

    def forward(self, x, action=None):
        chances = Categorical(logits=self.actor(x))
        if action is None:
            action = chances.sample()
        return action, chances.log_prob(action), chances.entropy(), self.critic(x).flatten()


def advantages(rewards, values, ends, last, gamma=0.99, smooth=0.95):
    found, running = torch.zeros_like(rewards), 0
    for t in reversed(range(STEPS)):
        following = last if t == STEPS - 1 else values[t + 1]
        alive = 1.0 - ends[t]
        running = rewards[t] + gamma * following * alive - values[t] + gamma * smooth * alive * running
        found[t] = running
    return found


def main():
    torch.manual_seed(0)
    agent, walk = Agent().to(DEVICE), Walk()
    optimizer = torch.optim.Adam(agent.parameters(), lr=2.5e-3, eps=1e-5)
    seen = torch.zeros((STEPS, ENVIRONMENTS, 2)).to(DEVICE)
    actions, chances, rewards, ends, values = (torch.zeros((STEPS, ENVIRONMENTS)).to(DEVICE) for _ in range(5))
    now = walk.reset().to(DEVICE)
    for _ in range(2):
        for t in range(STEPS):
            seen[t] = now
            with torch.no_grad():
                actions[t], chances[t], _, values[t] = agent(now)
            following, reward, end = walk.step(actions[t])
            now, rewards[t], ends[t] = following.to(DEVICE), reward.to(DEVICE), end.float().to(DEVICE)
        with torch.no_grad():
            gains = advantages(rewards, values, ends, agent(now)[3]).flatten()
        returns = gains + values.flatten()
        for rows in torch.randperm(STEPS * ENVIRONMENTS).split(32):
            rows = rows.to(DEVICE)
            _, chance, entropy, value = agent(seen.flatten(0, 1)[rows], actions.flatten()[rows])
            ratio = (chance - chances.flatten()[rows]).exp()
            gain = (gains[rows] - gains[rows].mean()) / (gains[rows].std() + 1e-8)
            policy = torch.max(-gain * ratio, -gain * ratio.clamp(0.8, 1.2)).mean()
            loss = policy + 0.5 * ((value - returns[rows]) ** 2).mean() - 0.01 * entropy.mean()
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(agent.parameters(), 0.5)
            optimizer.step()
            print(f"loss {loss.item():.6f}")


if __name__ == "__main__":
    main()
