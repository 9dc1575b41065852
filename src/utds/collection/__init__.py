"""Making datasets: online TD3 that records everything, and rollouts of policies.

Here stands what `utds collect` asks for; light, so that the command line's help is quick.
"""

import shlex
from dataclasses import dataclass, fields
from typing import Annotated

import tyro

from utds.errors import ConfigError

_MOST = 2**31 - 1  # 32-bit numbers
FORMER_NAMES = {"batch": "batch_size", "rate": "lr"}  # in config.json of earlier versions
_LIMITS = {  # of the options that may be less than 1, or not any number above it
    "seed": (0, _MOST),
    "copies": (1, 10_000),
    "batch_size": (1, 1_000_000),
    "width": (1, 100_000),
    "layers": (1, 100),
    "warmup": (0, _MOST),
    "evaluation_episodes": (2, 1_000_000),  # at least two, for a standard error
    "update_ratio": (0, 100),
    "lr": (0, 1),
    "tau": (0, 1),
    "discount": (0, 1),
    "noise": (0, 2),  # actions lie in [-1, 1]
}


@dataclass(frozen=True)
class Collect:
    """How to collect. The defaults learn fast on two cores."""

    task: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="TASK")]  # such as walker-walk
    steps: int = 1_000_000  # environment steps in all
    seed: int = 0  # of everything random
    copies: int = 10  # copies of the domain in lockstep
    update_ratio: float = 0.5  # gradient steps per environment step
    batch_size: int = 128  # transitions per gradient step
    width: int = 256  # units of the networks' hidden layers
    layers: int = 2  # hidden layers
    layer_norm: bool = True  # in the critics and the policy
    lr: float = 3e-4  # learning rate of actor and critics
    tau: float = 1e-2  # target networks' rate
    discount: float = 0.99  # γ of one step
    n_step: int = 3  # rewards summed before bootstrapping
    noise: float = 0.2  # standard deviation of the exploration noise
    warmup: int = 10_000  # environment steps with uniformly random actions first
    evaluate_every: int = 20_000  # environment steps between evaluations, each of which keeps a policy
    evaluation_episodes: int = 10  # episodes of each
    share: str = ""  # folder of a different task's collection: its rounds, relabelled, are learnt from too

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, bool | str):
                continue
            lowest, highest = _LIMITS.get(field.name, (1, _MOST))
            if field.type is int and not isinstance(value, int):
                raise ConfigError(f"{field.name}={value} must be a whole number")
            if not lowest <= value <= highest:
                raise ConfigError(f"{field.name}={value} must lie between {lowest} and {highest}")
        if round(self.copies * self.update_ratio) < 1:
            raise ConfigError(
                f"copies={self.copies} with update_ratio={self.update_ratio} never learn: raise one of them"
            )

    @property
    def command(self) -> str:
        """The command line that asks for this."""
        shown = [f for f in fields(self)[1:] if f.name in ("steps", "seed") or getattr(self, f.name) != f.default]
        options = [_option(f.name.replace("_", "-"), getattr(self, f.name)) for f in shown]
        return " ".join(["utds collect", self.task, *options])


def _option(name: str, value: object) -> str:
    """As the command line wants it: --no-layer-norm, or --share 'my collections/jump'."""
    if isinstance(value, bool):
        return f"--{name}" if value else f"--no-{name}"
    return f"--{name} {shlex.quote(str(value))}"
