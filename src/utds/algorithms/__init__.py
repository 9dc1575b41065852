"""The algorithms, by name."""

from utds.algorithms.base import Algorithm, Spec
from utds.algorithms.td3 import TD3

ALGORITHMS: dict[str, type] = {"td3": TD3}

__all__ = ["ALGORITHMS", "TD3", "Algorithm", "Spec"]
