"""The policies that ship: they load, climb, and are as good as their files say."""

import numpy as np
import pytest

import utds.domains
from utds.collection import kinds
from utds.evaluation import rollout
from utds.quickstart import STORIES

SHIPPED = sorted(path.stem for path in kinds.FOLDER.glob("*.safetensors"))


def test_the_quickstarts_ladders_ship():
    assert {task for story in STORIES.values() for task in (story.main, *story.share)} <= set(SHIPPED)
    assert sum(path.stat().st_size for path in kinds.FOLDER.iterdir()) < 20e6


@pytest.mark.parametrize("task", SHIPPED)
def test_a_ladder_climbs_and_says_how_it_was_made(task):
    found = kinds.load_ladder(task)
    asked = int(found.command.split()[4])
    assert found.command.startswith(f"utds collect {task} --steps {asked} --seed {found.seed}")
    assert asked <= found.total_steps < 1.05 * asked  # whole rounds
    assert len(found) >= 5 and list(found.steps) == sorted(found.steps) and found.steps[-1] <= found.total_steps
    assert found.returns[-1] > 3 * found.returns[0] or found.returns[-1] > 0.9 * 1000
    assert max(found.returns) - found.returns[-1] <= 3 * (
        found.errors[-1] + 1
    )  # the last rung is the best, give or take
    assert 0 < found.medium < len(found)


@pytest.mark.parametrize("task", [task for task in SHIPPED if task.startswith("pointmass")])
def test_recorded_returns_are_reproduced(task):
    domain, wanted = utds.domains.task(task)
    found = kinds.load_ladder(task)
    last = len(found) - 1
    returns = rollout.returns(domain, found.act(last), kinds.EPISODES, kinds.SEED)[:, domain.tasks.index(wanted)]
    assert returns.mean() == pytest.approx(found.returns[last], abs=1)


def test_kinds_of_a_shipped_ladder_lie_where_their_names_say():
    """Few episodes: the order is what counts."""
    found = kinds.load_ladder("pointmass-reach-bottom-right")
    means = {kind: kinds.generate(found, kind, 6, seed=0).returns.mean() for kind in kinds.KINDS}
    assert max(means["random"], means["uniform"]) < means["medium"] < means["expert"]
    assert means["medium-expert"] == pytest.approx(np.mean([means["medium"], means["expert"]]), rel=0.3)
    assert means["medium-replay"] < means["replay"]
