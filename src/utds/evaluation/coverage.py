"""How often a policy does what nobody in the data does: where it does, an estimate from that data is a guess.

For states drawn from the pool, the most similar states of other episodes are looked up, and the distance from an action
to the nearest of those taken there is measured: of the policy's action, and of the action that was recorded. A state is
*outside* where the policy's distance exceeds that of 95 % of the recorded actions.
"""

import jax.numpy as jnp
import numpy as np

from utds.data.pool import Pool
from utds.evaluation.rollout import Act
from utds.normalizer import Normalizer

STATES = 1_000  # at which the policy is asked, at most
REFERENCES = 20_000  # transitions among which similar states are looked for, at most
NEIGHBOURS = 10  # similar states for each
USUAL = 0.95  # of the recorded actions lie within the usual distance


def outside(act: Act, pool: Pool, seed: int = 0) -> float:
    """The share of states at which the policy's action lies unusually far from all that was done in similar states.

    Args:
        act: the policy, from observations [n, O] to actions [n, A] in [-1, 1].
        pool: the data.
        seed: of the states that are drawn.

    Returns:
        A share from 0 to 1; a policy that does what the data does gets about 0.05.
    """
    random = np.random.default_rng(seed)
    chosen = random.permutation(pool.size)[: STATES + REFERENCES]
    asked = chosen[: min(STATES, max(1, len(chosen) // 5))]
    others = chosen[len(asked) :] if len(chosen) > len(asked) else chosen
    batch, beside = (pool.take(jnp.asarray(rows)) for rows in (asked, others))
    normal = Normalizer(pool.mean, pool.std)
    states, places = (np.asarray(normal(part.observations)) for part in (batch, beside))
    squares = (states**2).sum(1)[:, None] - 2 * states @ places.T + (places**2).sum(1)  # [Q, R]
    same = _episodes(pool, asked)[:, None] == _episodes(pool, others)
    squares[same & ~same.all(axis=1, keepdims=True)] = np.inf  # its own next steps prove nothing, if there are others
    count = min(NEIGHBOURS, len(others))
    near = np.argpartition(squares, count - 1, axis=1)[:, :count]
    done = np.asarray(beside.actions)[near]  # [Q, k, A]

    def distance(actions: np.ndarray) -> np.ndarray:
        return np.linalg.norm(done - actions[:, None], axis=-1).min(axis=1)

    usual = np.quantile(distance(np.asarray(batch.actions)), USUAL)
    return float(np.mean(distance(np.asarray(act(np.asarray(batch.observations)))) > usual + 1e-6))


def _episodes(pool: Pool, rows: np.ndarray) -> np.ndarray:
    """The episode that each transition of the pool belongs to, counted over the lake."""
    sizes, starts = np.asarray(pool.ranges.size), np.asarray(pool.ranges.start)
    source = np.searchsorted(np.cumsum(sizes), rows, side="right")
    index = starts[source] + rows - (np.cumsum(sizes) - sizes)[source]
    return np.asarray(pool.columns.rows)[index] - index  # each episode adds one row
