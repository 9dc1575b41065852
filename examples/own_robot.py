"""Your own robot: arrays in, policy out. No simulator, no environment, no stored files.

A cart on a rail was driven about for two tasks. The second task's recordings are useful for the first one, once their
rewards are those of the first. All that utds needs is the arrays and a reward function.

python examples/own_robot.py
"""

import numpy as np

import utds


def record(episodes: int, goal: float, seed: int) -> dict[str, np.ndarray]:
    """Stand-in for your logs: a cart (position, velocity) pushed to a goal by a shaky hand, 50 steps an episode."""
    random = np.random.default_rng(seed)
    rows: dict[str, list] = {"observations": [], "actions": [], "next_observations": []}
    for _ in range(episodes):
        state = np.array([random.uniform(-1, 1), 0.0])
        for _ in range(50):
            push = np.clip(goal - state[0] - 0.5 * state[1] + random.normal(scale=0.5), -1, 1)
            velocity = 0.9 * state[1] + 0.1 * push
            after = np.array([np.clip(state[0] + 0.2 * velocity, -1, 1), velocity])
            for name, value in zip(rows, (state, [push], after), strict=True):
                rows[name].append(value)
            state = after
    return {name: np.array(value, np.float32) for name, value in rows.items()}


def reach_right(observations, actions, next_observations):
    """The task at hand: be at position 0.8."""
    return np.exp(-4 * (next_observations[:, 0] - 0.8) ** 2)


def dataset(task: str, recorded: dict[str, np.ndarray]) -> utds.Dataset:
    rewards = reach_right(**recorded) if task == "reach-right" else np.zeros(len(recorded["actions"]))
    return utds.Dataset.from_arrays(**recorded, rewards=rewards, lengths=[50] * (len(rewards) // 50), task=task)


def drive(run: utds.Run) -> float:
    """Try the policy on the cart: where does it stand after 100 steps?"""
    state = np.array([[-0.9, 0.0]], np.float32)
    for _ in range(100):
        velocity = 0.9 * state[:, 1] + 0.1 * run.act(state)[:, 0]
        state = np.stack([np.clip(state[:, 0] + 0.2 * velocity, -1, 1), velocity], axis=1).astype(np.float32)
    return float(state[0, 0])


def main(out: str = "runs/own-robot", steps: int = 3000) -> None:
    poor = dataset("reach-right", record(episodes=4, goal=-0.5, seed=0))  # hardly ever near its goal
    other = dataset("sort-left", record(episodes=40, goal=0.6, seed=1))  # another task's data, often near it
    pool = utds.share(poor, other, rewards=reach_right)
    run = utds.train(pool, utds.make_algorithm("utds", width=64), steps=steps, out=out, resume=True)
    run.export(f"{out}/policy.onnx", ensemble=True)
    print(f"the cart stops at {drive(run):.2f}; its goal is 0.8. The policy is in {out}/policy.onnx")


if __name__ == "__main__":
    main()
