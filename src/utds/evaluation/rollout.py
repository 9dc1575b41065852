"""What a policy does: in given states, and over whole episodes of a domain, many in lockstep.

Evaluation, collection and generation all use it. A policy is any function of observations, an `Act`; that of a trained
one is `functools.partial(act, algorithm, policy)`.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import numpy as np
from numpy.typing import NDArray

from utds import terminal
from utds.algorithms import Algorithm
from utds.domains.base import Array, Domain
from utds.domains.simulator import Simulator
from utds.errors import ConfigError

LOCKSTEP = 64  # copies stepped together at most; more gain nothing and only hold memory

# A policy: observations [n, O] float32 -> actions [n, A] in [-1, 1].
Act = Callable[[NDArray[np.float32]], NDArray[np.floating]]


def act(algorithm: Algorithm, policy: Any, observations: NDArray[np.floating]) -> NDArray[np.float32]:
    """Actions [B, A] of a trained policy at observations [B, O]; compiled once per algorithm and shape."""
    return np.asarray(_act(algorithm, policy, np.asarray(observations, np.float32)))


@partial(jax.jit, static_argnums=0)
def _act(algorithm: Algorithm, policy: Any, observations: jax.Array) -> jax.Array:
    return algorithm.act(policy, observations)


class Episodes(NamedTuple):
    """Whole episodes, each of T steps. Reward t belongs to the step from state t to state t + 1."""

    observations: NDArray[np.float32]  # [E, T + 1, O]
    actions: NDArray[np.float32]  # [E, T, A]
    rewards: NDArray[np.float32]  # [E, T, tasks]: of every task of the domain
    physics: Array  # [E, T + 1, S]

    @staticmethod
    def empty(domain: Domain, episodes: int) -> "Episodes":
        shape = (episodes, domain.steps)
        return Episodes(
            np.empty((episodes, domain.steps + 1, domain.observation_size), np.float32),
            np.empty((*shape, domain.action_size), np.float32),
            np.empty((*shape, len(domain.tasks)), np.float32),
            np.empty((episodes, domain.steps + 1, domain.state_size)),
        )


def returns(domain: Domain, act: Act, episodes: int, seed: int, threads: int | None = None) -> Array:
    """The returns `[episodes, tasks]` of a policy from the domain's own start states; nothing else is kept.

    Episode e starts where copy e of the seed starts, however many run in lockstep.
    """
    totals = np.zeros((episodes, len(domain.tasks)))
    with terminal.bar(f"evaluating on {domain.name}", total=episodes * domain.steps) as advance:
        for copies, simulator, observations in _blocks(domain, episodes, seed, False, threads):
            for _ in range(domain.steps):
                observations, rewards = simulator.step(act(observations.astype(np.float32)))
                totals[copies] += rewards
                advance(simulator.n)
    return totals


def record(domain: Domain, act: Act, episodes: int, seed: int, exploration_start: bool = False) -> Episodes:
    """Episodes of a policy with everything that there is to know of them."""
    out = Episodes.empty(domain, episodes)
    with terminal.bar(f"recording {domain.name}", total=episodes * domain.steps) as advance:
        for copies, simulator, observations in _blocks(domain, episodes, seed, exploration_start):
            out.observations[copies, 0], out.physics[copies, 0] = observations, simulator.physics()
            for t in range(domain.steps):
                actions = np.clip(act(out.observations[copies, t]), -1, 1).astype(np.float32)
                observations, rewards = simulator.step(actions)
                out.actions[copies, t], out.rewards[copies, t] = actions, rewards
                out.observations[copies, t + 1], out.physics[copies, t + 1] = observations, simulator.physics()
                advance(simulator.n)
    return out


def check_seed(seed: int) -> None:
    """Refuse a seed that NumPy's and Gymnasium's generators don't take."""
    if seed < 0:
        raise ConfigError(f"seed={seed} must be at least 0")


def _blocks(domain: Domain, episodes: int, seed: int, exploration_start: bool, threads: int | None = None):
    """Blocks of at most LOCKSTEP copies at their start states: which copies, the simulator, observations."""
    check_seed(seed)
    for first in range(0, episodes, LOCKSTEP):
        copies = slice(first, min(first + LOCKSTEP, episodes))
        starts = [domain.start_state(seed, i, exploration_start) for i in range(copies.start, copies.stop)]
        with Simulator(domain, len(starts), threads) as simulator:
            yield copies, simulator, simulator.set_physics(np.stack(starts))
