"""Ten episodes of one policy in lockstep, over dm_control's own loop with the same policy."""

from functools import partial

import jax
import numpy as np

from common import RATIO, dm_control_environment, fastest, require, table, verdict
from utds import algorithms, domains, training
from utds.algorithms import Policy, Spec
from utds.evaluation import rollout

EPISODES = 10
STEPS = {"walker": 1000, "jaco": 250}
REQUIRED = {"walker": 3.0}  # times the plain loop's speed


def policy(name: str):
    """A fresh UTDS policy of the paper's size, as observations [n, O] -> actions [n, A]."""
    domain, algorithm = domains.get(name), algorithms.make("utds", "paper")
    spec = Spec(domain.observation_size, domain.action_size)
    state = jax.jit(lambda key: Policy.of(algorithm.init(key, spec)))(jax.random.key(0))
    return partial(training.act, algorithm, state)


def plain(name: str, act):
    """One episode after the other, one observation per call: how a policy is evaluated with dm_control alone."""
    env = dm_control_environment(name)
    centre, half = domains.get(name).action_range

    def episode() -> None:
        step = env.reset()
        while not step.last():
            values = [np.ravel(v) for k, v in step.observation.items() if k != "target_position"]
            action = act(np.concatenate(values, dtype=np.float32, casting="same_kind")[None])[0]
            step = env.step(centre + half * action)

    return episode


def main() -> None:
    rows = []
    for name in STEPS:
        act, domain = policy(name), domains.get(name)
        works = {
            "ours": lambda domain=domain, act=act: rollout.returns(domain, act, EPISODES, seed=0),
            "plain": plain(name, act),
        }
        for work in works.values():  # compile, and draw the start states
            work()
        times = fastest(works, repeats=3)
        faster = EPISODES * times["plain"] / times["ours"]
        rows.append(
            {
                "domain": name,
                "episodes": EPISODES,
                "ours (s)": times["ours"],
                "plain loop (s)": EPISODES * times["plain"],
                "over the plain loop": f"{faster:.1f}×",
                "required": f"{REQUIRED[name]:g}×" if name in REQUIRED else "–",
            }
        )
        require(f"evaluating on {name}, over the plain loop", faster, least=REQUIRED.get(name), noise=RATIO)
    table("evaluation", rows)


if __name__ == "__main__":
    main()
    verdict()
