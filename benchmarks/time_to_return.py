"""Time to a good policy: seconds of training until an evaluation reaches nine tenths of the best, on one pool.

UTDS's fast preset against the setting that came before it, TD3+BC, IQL and CQL, each with its own preset. All of them
train in turn, a piece of each at a time, so that a busy machine slows them alike; only training is timed, compiling
and evaluating are not. One seed: a difference of a piece or two is chance.
"""

import time
from dataclasses import dataclass, field

import jax

from common import CLOCK, require, table, verdict
from utds import algorithms, evaluation
from utds.algorithms import Algorithm, Policy, Spec
from utds.collection import kinds
from utds.data.lake import share
from utds.data.pool import Pool
from utds.evaluation.rollout import act
from utds.training import loop

# robot: own task, shared task, own and shared episodes
SETTINGS = {
    "pointmass": ("reach-bottom-right", "reach-top-right", 8, 150),
    "walker": ("flip", "run", 80, 200),
    "quadruped": ("jump", "walk", 80, 200),
}
EARLIER = {  # UTDS's preset for CPUs before `fast`, beside the paper's values
    "batch_size": 256, "layers": 2, "layer_norm": True, "actor_lr": 3e-4, "critic_lr": 3e-4, "tau": 0.01,
    "beta_ood": 1.0, "beta_ood_decay": 0.9995, "ood_actions": 1, "floor": "auto", "ood_floor": "auto",
}  # fmt: skip
PIECES = 12  # evaluations along the way
EPISODES = 20
ENOUGH = 0.9  # of the best evaluation
SEED = 12


@dataclass
class Racer:
    """One algorithm under way."""

    algorithm: Algorithm
    state: loop.SeedState
    seconds: float = 0.0
    curve: list[tuple[float, float]] = field(default_factory=list)  # (seconds of training, return)

    def reached(self, least: float) -> float | None:
        """Seconds until a return of `least`; None if it never came."""
        return next((seconds for seconds, value in self.curve if value >= least), None)


def contenders() -> dict[str, Algorithm]:
    fast = {name: algorithms.make(name) for name in ("utds", "td3bc", "iql", "cql")}
    return fast | {"utds, earlier preset": algorithms.make("utds", "paper", **EARLIER)}


def race(pool: Pool, steps: int) -> dict[str, Racer]:
    """Every contender trained on the pool for as many steps."""
    key, task = jax.random.key(SEED), pool.info.task
    racers = {}
    for name, given in contenders().items():
        algorithm = algorithms.resolve(given, steps)
        state = loop.advance(algorithm, loop.fresh(algorithm, Spec.of(pool), pool, key), pool, key, 1)  # compiles
        racers[name] = Racer(algorithm, jax.block_until_ready(state))
    for _ in range(PIECES):
        for racer in racers.values():
            begun = time.perf_counter()
            racer.state = loop.advance(racer.algorithm, racer.state, pool, key, steps // PIECES)
            jax.block_until_ready(racer.state)
            racer.seconds += time.perf_counter() - begun
            policy = Policy.of(racer.state.state)
            found = evaluation.evaluate(lambda x, r=racer, p=policy: act(r.algorithm, p, x), task, EPISODES, seed=SEED)
            racer.curve.append((racer.seconds, found.mean))
    return racers


def robot(name: str) -> list[dict[str, object]]:
    own, other, few, many = SETTINGS[name]
    data = [(own, "medium-replay", few), (other, "replay", many)]
    pool = share(*(kinds.generate(kinds.load_ladder(f"{name}-{task}"), kind, n, SEED) for task, kind, n in data))
    racers = race(pool, algorithms.default_steps(algorithms.make("utds"), pool))
    of_its_best = {label: racer.reached(ENOUGH * max(v for _, v in racer.curve)) for label, racer in racers.items()}
    quicker = (of_its_best["td3bc"] or 0.0) / (of_its_best["utds"] or 1.0)
    require(f"{name}: TD3+BC's time to 90 % of its best return, over UTDS's", quicker, least=1.0, noise=CLOCK)
    best = max(value for racer in racers.values() for _, value in racer.curve)
    unit = racers["utds"].seconds  # of a whole run of UTDS

    def share_of_run(seconds: float | None) -> str:
        return "never" if seconds is None else f"{seconds / unit:.2f}"

    return [
        {
            "robot": name,
            "algorithm": label,
            "last return": racer.curve[-1][1],
            "best return": max(value for _, value in racer.curve),
            "whole run": share_of_run(racer.seconds),
            "to 90 % of its best": share_of_run(of_its_best[label]),
            "to 90 % of the best of all": share_of_run(racer.reached(ENOUGH * best)),
        }
        for label, racer in racers.items()
    ]


def main() -> None:
    rows = [row for name in SETTINGS for row in robot(name)]
    table("seconds of training, as a share of UTDS's whole run with its fast preset", rows)


if __name__ == "__main__":
    main()
    verdict()
