"""What tests of several commands share: how a wrong command ends, and data to begin with."""

from collections.abc import Callable
from typing import Any

import pytest

from utds.cli import main


@pytest.fixture
def refused(capsys) -> Callable[..., str]:
    """A function that runs a wrong command and returns the one line that it ends in, with exit code 2."""

    def said(*args: object) -> str:
        capsys.readouterr()
        with pytest.raises(SystemExit) as exit:
            main([str(arg) for arg in args])
        captured = capsys.readouterr()
        assert exit.value.code == 2 and captured.err.count("\n") == 1, captured
        assert captured.out == "" or args[:2] == ("data", "import")  # which shows what it found before it stores it
        assert captured.err.startswith("utds: error: ")
        return captured.err.removeprefix("utds: error: ").rstrip("\n")

    return said


@pytest.fixture(scope="session")
def record() -> Callable[..., str]:
    """A function that stores three episodes of random actions for a task, and returns the dataset's id."""
    from utds.collection import kinds
    from utds.evaluation import rollout

    def stored(domain: Any, task: str, seed: int = 0) -> str:
        recorded = rollout.record(domain, kinds._noisy(None, domain, 0, [seed]), episodes=3, seed=seed)
        return kinds.to_dataset(task, "random", [recorded], seed).save(f"{task}/random").name

    return stored
