"""An algorithm of one's own in one file: TD3 whose policy also prefers small actions.

python examples/own_algorithm.py                                               trains, evaluates and exports it
UTDS_ALGORITHMS=examples/own_algorithm.py utds train … --algo gentle-td3       the same on the command line
"""

from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp

import utds
from utds.algorithms.base import NonNegative
from utds.networks import deterministic


@dataclass(frozen=True)
class GentleTD3(utds.TD3):
    effort: NonNegative = 0.1  # weight of the mean squared action in the policy's loss

    def actor_loss(self, actor: Any, state: Any, batch: Any) -> Any:
        loss, metrics = super().actor_loss(actor, state, batch)
        effort = jnp.mean(deterministic(actor, batch.observations) ** 2)  # the batch is normalised already
        return loss + self.effort * effort, metrics | {"effort": effort}


utds.register_algorithm("gentle-td3", GentleTD3, label="Gentle TD3")


def main(out: str = "runs/gentle-td3", steps: int = 2_000) -> utds.Run:
    from utds.collection import kinds

    data = kinds.generate(kinds.load_ladder("pointmass-reach-top-left"), "medium-replay", episodes=20, seed=0)
    run = utds.train(utds.share(data), GentleTD3(effort=0.3, width=64), steps=steps, out=out, episodes=2, resume=True)
    print(run.evaluate(episodes=2))
    print(f"wrote {run.export(f'{out}/policy.onnx')}")
    return run


if __name__ == "__main__":
    main()
