"""The cost of a gradient step: against the machine's own matrix product, and against the bare update.

FLOPs are those of the matrix products that the method needs, 2·m·k·n each, and nothing else: forward passes; for a
network that learns, the gradients of its weights and, but for its first layer, of its inputs; for the critics under the
policy's loss, the gradients of inputs only. Activations, Adam, target networks, sampling and random numbers take time
and count for nothing. The yardstick is a 2048 × 2048 × 2048 float32 product. Whatever is compared runs in turn, round
after round, and the median over rounds of the ratio counts: a neighbour on the machine slows both sides of it.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import jax
import numpy as np

from common import RATIO, ratio, require, rounds, table, verdict
from utds import algorithms
from utds.algorithms import CDS, UTDS, Algorithm, Spec
from utds.data.dataset import Dataset
from utds.data.lake import share
from utds.data.pool import Pool
from utds.networks import jit
from utds.training import loop

OBSERVATION, ACTION = 24, 6  # walker
EDGE = 2048  # of the yardstick's matrices
PRODUCTS = 8  # of the yardstick a measurement, about as long as the steps
STEPS = 3  # gradient steps per measurement
PAPER = "paper (batch 1024, N 5, K 3)"
KEY = jax.random.key(0)


def products(inputs: int, outputs: int, layers: int, width: int) -> tuple[int, int]:
    """FLOPs per row of an MLP's forward pass, and of its input gradients from the second layer on."""
    inner = (layers - 1) * width**2 + width * outputs
    return 2 * (inputs * width + inner), 2 * inner


def flops(algo: Any) -> float:
    """FLOPs of one update; see the module's description."""
    q, q_inner = products(OBSERVATION + ACTION, 1, algo.layers, algo.width)
    ensemble = isinstance(algo, UTDS)
    actor_width = getattr(algo, "actor_width", None) or algo.width
    pi, pi_inner = products(OBSERVATION, ACTION if ensemble else 2 * ACTION, algo.layers, actor_width)
    learnt = 1 + (algo.ood_actions if ensemble else 3 * algo.num_actions)  # critic rows per transition
    critics = algo.num_critics * (q + learnt * (2 * q + q_inner))
    judged = 2 + bool(ensemble and algo.bc_weight)  # critics' passes for the policy; one more for the behaviour term
    policy = (2 * pi + pi_inner + algo.num_critics * judged * q) / getattr(algo, "policy_delay", 1)
    proposals = 1 + (learnt > 1)  # policy passes at s' for targets, and at s where other actions are judged
    return algo.batch_size * (critics + proposals * pi + policy)


def selection_flops(algo: Any) -> float:
    """FLOPs of judging CDS's candidates: the method's own, but no part of `update`."""
    if not isinstance(algo, CDS):
        return 0.0
    judged = algo.batch_size * algo.shared_share * algo.candidates
    return judged * algo.num_critics * products(OBSERVATION + ACTION, 1, algo.layers, algo.width)[0]


def walker_like(size: int = 100_000) -> Pool:
    """Random columns of walker's dimensions, half of them shared."""
    random = np.random.default_rng(0)

    def dataset(task: str) -> Dataset:
        return Dataset.from_arrays(
            random.normal(size=(size + size // 1000, OBSERVATION)),
            random.uniform(-1, 1, (size, ACTION)),
            random.uniform(size=size),
            lengths=np.full(size // 1000, 1000),
            task=task,
        )

    return share(dataset("main"), dataset("other"), rewards=lambda o, a, n: np.zeros(len(o)))


class Stepper:
    """Compiled steps of one algorithm: as training takes them, or bare updates on one batch."""

    def __init__(self, algo: Algorithm, pool: Pool, bare: bool) -> None:
        self.algo, self.pool = algo, pool
        self.seed_state = loop.fresh(algo, Spec.of(pool), pool, KEY)
        self.batch = jax.jit(algo.draw)(self.seed_state.state, pool, KEY)
        self._bare = jit(self._updates, donate_argnums=0) if bare else None
        self()  # compile

    def _updates(self, state: Any, batch: Any) -> Any:
        return jax.lax.fori_loop(
            0, STEPS, lambda i, s: self.algo.update(s, batch, jax.random.fold_in(KEY, i))[0], state
        )

    def __call__(self) -> None:
        if self._bare:
            self.seed_state = self.seed_state._replace(state=self._bare(self.seed_state.state, self.batch))
        else:
            self.seed_state = loop.advance(self.algo, self.seed_state, self.pool, KEY, STEPS)
        jax.block_until_ready(self.seed_state)


def yardstick() -> Callable[[], object]:
    """`PRODUCTS` products of square matrices."""
    matrix = jax.random.normal(KEY, (EDGE, EDGE))
    product = jax.jit(lambda a, b: a @ b)
    jax.block_until_ready(product(matrix, matrix))
    return lambda: [jax.block_until_ready(product(matrix, matrix)) for _ in range(PRODUCTS)]


def main() -> None:
    pool, product = walker_like(), yardstick()
    efficiency(pool, product)
    scaling(pool)


def efficiency(pool: Pool, product: Callable[[], object]) -> None:
    """Paper-size steps of UTDS, CQL and CDS."""
    # Of the product's FLOP/s at least; time over the bare update at most.
    required = {"utds": (0.80, 1.05), "cql": (None, 1.05), "cds": (None, 1.05), "utds fast": (None, None)}
    rows = []
    for name, (least, most) in required.items():
        made = algorithms.make(*(name.split() if " " in name else (name, "paper")))
        algo = algorithms.resolve(made, steps=5_000)  # rates that fall over the run need to know how long it is
        works = {"product": product, "full": Stepper(algo, pool, False), "bare": Stepper(algo, pool, True)}
        times = rounds(works, repeats=8)
        work, judged = (
            n * STEPS / (PRODUCTS * 2 * EDGE**3) for n in (flops(algo), selection_flops(algo))
        )  # in products
        judging = judged / ratio(times, "bare", "product")  # CDS's selection, as a share of the bare update
        speed, over = (work + judged) / ratio(times, "full", "product"), ratio(times, "full", "bare") - judging
        require(f"{name}: of the product's FLOP/s", speed, least=least, noise=RATIO)
        require(f"{name}: over the bare update", over, most=most, noise=RATIO)
        rows.append(
            {
                "preset": name if " " in name else f"{name} paper",
                "GFLOP per step": (flops(algo) + selection_flops(algo)) / 1e9,
                "ms per step": 1e3 * min(times["full"]) / STEPS,
                "of the product's FLOP/s": f"{speed:.2f}",
                "required": "–" if least is None else f"≥ {least:.2f}",
                "over the bare update": f"{100 * (over - 1):+.1f} %",
                "allowed": "–" if most is None else f"≤ {100 * (most - 1):.0f} %",
            }
        )
    table("A gradient step inside the training loop, walker's dimensions", rows)


def scaling(pool: Pool) -> None:
    """UTDS's cost against batch, N and K, in units of the paper's step."""
    paper = UTDS()
    variants = {PAPER: paper}
    variants |= {f"batch {n}": replace(paper, batch_size=n) for n in (256, 512)}
    variants |= {f"N {n}": replace(paper, num_critics=n) for n in (2, 10)}
    variants |= {f"K {n}": replace(paper, ood_actions=n) for n in (1, 10)}
    works = {name: Stepper(algo, pool, False) for name, algo in variants.items()}
    times = rounds(works, repeats=4)
    rows = [
        {
            "variant": name,
            "ms per step": 1e3 * min(times[name]) / STEPS,
            "time, paper = 1": ratio(times, name, PAPER),
            "FLOPs, paper = 1": flops(algo) / flops(paper),
        }
        for name, algo in variants.items()
    ]
    table("UTDS's step against batch, ensemble size and OOD actions", rows)


if __name__ == "__main__":
    main()
    verdict()
