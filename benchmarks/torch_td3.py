"""TD3 in plain PyTorch, as most code of the field writes it: what `collect.py` compares with where torch is there."""

import numpy as np
import torch
from torch import Tensor, nn

from utds.collection import Collect


class Torch:
    """Actor, twin critics and their targets; one gradient step per call."""

    def __init__(self, config: Collect, observation_size: int, action_size: int) -> None:
        self._config, self._discount = config, config.discount**config.n_step
        self._actor, self._target_actor = (network(config, observation_size, action_size) for _ in range(2))
        inputs = observation_size + action_size
        self._critics, self._targets = (nn.ModuleList([network(config, inputs, 1) for _ in range(2)]) for _ in range(2))
        self._actor_steps, self._critic_steps = (
            torch.optim.Adam(part.parameters(), config.lr) for part in (self._actor, self._critics)
        )
        self._count = 0

    @torch.no_grad()
    def act(self, observations: np.ndarray) -> np.ndarray:
        return torch.tanh(self._actor(torch.from_numpy(observations.astype(np.float32)))).numpy()

    def update(self, columns: tuple[np.ndarray, ...]) -> None:
        """On columns [B, …]: observations, actions, rewards, terminations, next observations."""
        observations, actions, rewards, _, after = (torch.from_numpy(column) for column in columns[:5])
        with torch.no_grad():
            noise = (0.2 * torch.randn_like(actions)).clamp(-0.5, 0.5)
            then = (torch.tanh(self._target_actor(after)) + noise).clamp(-1, 1)
            targets = rewards + self._discount * torch.minimum(*values(self._targets, after, then))
        descend(
            self._critic_steps,
            sum(((q - targets) ** 2).mean() for q in values(self._critics, observations, actions)),
        )
        self._count += 1
        if self._count % 2 == 0:
            chosen = torch.tanh(self._actor(observations))
            descend(self._actor_steps, -values(self._critics[:1], observations, chosen)[0].mean())
            self._move(self._target_actor, self._actor)
            self._move(self._targets, self._critics)

    @torch.no_grad()
    def _move(self, target: nn.Module, online: nn.Module) -> None:
        for slow, fast in zip(target.parameters(), online.parameters(), strict=True):
            slow.lerp_(fast, self._config.tau)


def network(config: Collect, inputs: int, outputs: int) -> nn.Sequential:
    layers: list[nn.Module] = []
    for _ in range(config.layers):
        layers += [nn.Linear(inputs, config.width), nn.LayerNorm(config.width), nn.ReLU()]
        inputs = config.width
    return nn.Sequential(*layers, nn.Linear(inputs, outputs))


def values(critics: nn.ModuleList, observations: Tensor, actions: Tensor) -> list[Tensor]:
    pairs = torch.cat([observations, actions], -1)
    return [critic(pairs)[:, 0] for critic in critics]


def descend(steps: torch.optim.Adam, loss: Tensor) -> None:
    steps.zero_grad()
    loss.backward()
    steps.step()
