"""How good a policy is: `returns` on a simulator or any Gymnasium environment, `fqe` from data alone."""

from utds.evaluation.returns import SEED, Evaluation, evaluate, evaluate_env, evaluator, opened_env, over_seeds, video

__all__ = ["SEED", "Evaluation", "evaluate", "evaluate_env", "evaluator", "opened_env", "over_seeds", "video"]
