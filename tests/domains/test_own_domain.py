"""A domain of one's own takes one file: the cheetah example against dm_control."""

import os
import subprocess
import sys
from pathlib import Path

import gymnasium
import numpy as np
import pytest

import utds.domains
from utds.domains.base import quiet_import
from utds.domains.simulator import Simulator
from utds.errors import ConfigError, DomainError
from utds.evaluation import evaluator

EXAMPLE = Path(__file__).parents[2] / "examples" / "cheetah.py"


@pytest.fixture(scope="module")
def cheetah():
    os.environ["UTDS_DOMAINS"] = str(EXAMPLE)
    utds.domains._load_own.cache_clear()
    yield utds.domains.get("cheetah")
    del os.environ["UTDS_DOMAINS"]


def test_equals_dm_control(cheetah):
    """To rounding: dm_control settles the cheetah before an episode, and its solver starts warm from that."""
    env = quiet_import("dm_control.suite").load("cheetah", "run", task_kwargs={"random": 3})
    first = env.reset()
    random = np.random.RandomState(0)
    with Simulator(cheetah) as simulator:
        observations = simulator.set_physics([env.physics.get_state()])
        np.testing.assert_array_equal(observations[0], np.concatenate(list(first.observation.values())))
        for _ in range(50):
            action = random.uniform(-1, 1, 6)
            timestep = env.step(action)
            observations, rewards = simulator.step([action])
            np.testing.assert_allclose(observations[0], np.concatenate(list(timestep.observation.values())), atol=1e-6)
            assert rewards[0, 0] == pytest.approx(timestep.reward, abs=1e-6)
            assert rewards[0, 1] == pytest.approx(min(max(-env.physics.speed() / 10, 0), 1), abs=1e-6)


def test_is_a_gymnasium_environment_too(cheetah):
    env = gymnasium.make("utds/CheetahRunBackward-v0")
    observation, _ = env.reset(seed=0)
    assert observation.shape == (17,)
    env.close()


def test_two_domains_of_one_name_are_refused(cheetah):
    with pytest.raises(DomainError, match="exists already"):
        utds.domains.register(utds.domains.Domain(**{**vars_of(cheetah), "steps": 7}))
    with pytest.raises(DomainError, match="letters, digits"):
        utds.domains.register(utds.domains.Domain(**{**vars_of(cheetah), "name": "my-robot"}))


@pytest.mark.parametrize(
    ("tasks", "message"),
    [(["run fast"], "task name 'run fast' must be letters, digits"), ([""], "task name ''"), ([], "has no task"),
     (["run", "run"], "tasks run, run must differ"), (["run-up", "Run_Up"], "tasks run-up, Run_Up must differ")],
)  # fmt: skip
def test_tasks_whose_names_make_no_ids_are_refused(cheetah, tasks, message):
    """Of two whose environments have one name, `gymnasium.make` would silently give the first."""
    with pytest.raises(DomainError, match=message):
        named = tuple(utds.domains.Task(name) for name in tasks)
        utds.domains.register(utds.domains.Domain(**{**vars_of(cheetah), "name": "other", "tasks": named}))


def test_a_reward_without_a_column_a_task_is_refused(cheetah):
    domain = utds.domains.Domain(**{**vars_of(cheetah), "tasks": cheetah.tasks[:2]})
    with Simulator(domain) as simulator:
        simulator.reset(0)
        with pytest.raises(DomainError, match=r"must give shape \(1, 2\), one column per task, and gave \(1, 3\)"):
            simulator.step(np.zeros((1, 6)))


def vars_of(domain):
    return {name: getattr(domain, name) for name in domain.__dataclass_fields__}


def test_scores_count_from_0_where_the_return_of_random_actions_is_not_stated():
    assert utds.domains.Task("run", reference=9).random is None and utds.domains.Task("run", reference=9).lowest == 0
    assert utds.domains.Task("run", reference=9, random=2).lowest == 2


def test_the_command_line_knows_it():
    environment = {**os.environ, "UTDS_DOMAINS": str(EXAMPLE)}
    done = subprocess.run(
        [sys.executable, "-m", "utds", "domains"], env=environment, capture_output=True, text=True, timeout=120
    )
    (row,) = [line.split() for line in done.stdout.splitlines() if "cheetah-run-backward" in line]
    assert done.returncode == 0 and row[-2:] == ["–", "–"]  # it tells neither return, not that of random actions either


def test_a_file_of_ones_own_may_ask_for_domains(tmp_path, monkeypatch):
    """As one does that varies a robot of the package."""
    code = "import dataclasses, utds.domains as d\nassert 'walker' in d.names()\n"
    code += "d.register(dataclasses.replace(d.get('walker'), name='variant'))\n"
    (tmp_path / "variant.py").write_text(code)
    monkeypatch.setenv("UTDS_DOMAINS", str(tmp_path / "variant.py"))
    monkeypatch.setattr(utds.domains, "_DOMAINS", dict(utds.domains._DOMAINS))
    utds.domains._load_own.cache_clear()
    assert utds.domains.task("variant-walk")[0].observation_size == 24


def test_a_file_that_raises_is_not_taken_for_a_task_without_a_simulator(tmp_path, monkeypatch):
    """Nothing would be evaluated, without a word."""
    (tmp_path / "broken.py").write_text("raise KeyError('arm')\n")
    monkeypatch.setenv("UTDS_DOMAINS", str(tmp_path / "broken.py"))
    utds.domains._load_own.cache_clear()
    with pytest.raises(ConfigError, match=r"broken\.py, line 1: KeyError: 'arm'"):
        evaluator("walker-walk")


@pytest.mark.parametrize("returns", [{"reference": 0.0}, {"reference": -50.0}, {"reference": 10.0, "random": 10.0}])
def test_an_expert_that_is_no_better_than_chance_is_refused(returns):
    """Scores would be divided by nothing, or fall where returns rise."""
    with pytest.raises(DomainError, match="task fetch: its reference return, "):
        utds.domains.Task("fetch", **returns)
