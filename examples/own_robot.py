"""Your own robot, from log files to a control loop: no simulator, no environment.

A cart on a rail was driven about for three tasks, and each task's log is a CSV file, the motor's input in volts. The
way of docs/start/own-data.md: import, ask which data to share, train alone and shared, judge both from data alone,
choose a policy, export it, and drive.

python examples/own_robot.py
"""

import csv
from pathlib import Path

import numpy as np
import onnxruntime

import utds
from utds.data.formats import importing
from utds.training.offline import Comparison

COLUMNS = {
    "observations": "position,velocity",
    "actions": "volts",
    "episode": "episode",
    "time": "t",
    "reward": "reward",
}
# Episodes, and where the hand drives to.
TASKS = {"cart-right": (20, -0.4), "cart-sort": (40, 0.6), "cart-park": (40, -0.7)}


def cart(state: np.ndarray, volts: np.ndarray) -> np.ndarray:
    """Where the cart (position, velocity) [n, 2] is a step later: stands in for the real one."""
    velocity = 0.9 * state[:, 1] + 0.1 * volts[:, 0] / 12
    return np.stack([np.clip(state[:, 0] + 0.2 * velocity, -1, 1), velocity], axis=1).astype(np.float32)


def reach_right(observations, actions, next_observations):
    """The reward of the task at hand: be at position 0.8."""
    return np.exp(-4 * (next_observations[:, 0] - 0.8) ** 2)


def write_log(path: Path, episodes: int, goal: float, seed: int) -> None:
    """Stand-in for your logs: a shaky hand drives the cart to a goal, 50 steps per episode."""
    random = np.random.default_rng(seed)
    with open(path, "w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(["episode", "t", "position", "velocity", "volts", "reward"])
        for episode in range(episodes):
            state = np.array([[random.uniform(-1, 1), 0.0]], np.float32)
            for t in range(50):
                push = goal - state[0, 0] - 0.5 * state[0, 1] + random.normal(scale=0.5)
                volts = 12 * np.clip(push, -1, 1)
                after = cart(state, np.array([[volts]]))
                rows.writerow([episode, t, *state[0], volts, reach_right(None, None, after)[0]])
                state = after


def imported(folder: Path) -> list[utds.Dataset]:
    """Every task's log as a stored dataset; `utds data import` does the same."""
    folder.mkdir(parents=True, exist_ok=True)
    for seed, (task, (episodes, goal)) in enumerate(TASKS.items()):
        write_log(folder / f"{task}.csv", episodes, goal, seed)
    pairs = [(str(folder / f"{task}.csv"), f"{task}/logs") for task in TASKS]
    options = importing.Options(columns=COLUMNS, actions=((-12.0,), (12.0,)))
    return importing.save(importing.load(pairs, options), overwrite=True)


def judged(own: utds.Dataset, others: list[utds.Dataset], out: Path, steps: int, fit: int) -> Comparison:
    """Train alone and with the others' data, and judge every policy that was kept along the way."""
    runs = []
    for name, shared in (("alone", []), ("shared", others)):
        pool = utds.share(own, *shared, rewards=reach_right)
        algorithm = utds.make_algorithm("utds", width=64)
        options = {"steps": steps, "eval_every": steps // 2, "trust_dynamics": True}
        runs.append(utds.train(pool, algorithm, out=out / name, resume=True, **options))
    return utds.evaluate_offline(runs, all_steps=True, rewards=reach_right, steps=fit, width=64)


def drive(model: Path) -> float:
    """The control loop: where does the cart stand after 100 steps?"""
    session = onnxruntime.InferenceSession(str(model))
    state = np.array([[-0.9, 0.0]], np.float32)
    for _ in range(100):
        (volts,) = session.run(["actions"], {"observations": state})  # observations and volts as the robot has them
        state = cart(state, volts)
    return float(state[0, 0])


def main(out: str = "runs/own-robot", steps: int = 3000, fit: int = 1500) -> None:
    own, *others = imported(Path(out) / "logs")
    # One cart made all logs. Where that isn't sure, leave out trust_dynamics: the check takes a while.
    advice = utds.advise(own, others, rewards=reach_right, trust_dynamics=True)
    print(advice.recommendation)
    found = judged(own, others, Path(out), steps, fit)
    print("\n".join((*found.verdict, *found.warnings)))
    best = found.best
    model = utds.Run(best.run).export(Path(out) / "policy.onnx", best.seed, step=None if best.last else best.step)
    print(f"the cart stops at {drive(model):.2f}; its goal is 0.8. The policy is in {model}")


if __name__ == "__main__":
    main()
