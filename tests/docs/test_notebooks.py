"""Every notebook of docs/notebooks runs from its first cell to its last, in an empty folder with an empty store."""

import os
import sys
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

NOTEBOOKS = sorted((Path(__file__).parents[2] / "docs" / "notebooks").glob("*.ipynb"))


def test_there_are_notebooks():
    assert NOTEBOOKS


@pytest.fixture
def run(tmp_path, monkeypatch):
    """A function that runs a notebook and returns the outputs of its cells."""
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "datasets"))
    monkeypatch.setenv("PATH", os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"])))
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    monkeypatch.delenv("JAX_DISABLE_MOST_OPTIMIZATIONS", raising=False)  # they train networks of full size

    def run(path):
        notebook = nbformat.read(path, as_version=4)
        nbformat.validate(notebook)
        here = {"metadata": {"path": str(tmp_path)}}
        NotebookClient(notebook, timeout=600, kernel_name="python3", resources=here).execute()
        return [cell.outputs for cell in notebook.cells if cell.cell_type == "code"]

    return run


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_it_runs(path, run):
    outputs = run(path)  # a cell that fails raises
    if path.stem == "sharing":  # every cell ends with an object that shows itself, and nothing warns
        assert all("text/html" in cell[-1].data for cell in outputs)
        assert not [output.text for cell in outputs for output in cell if output.get("name") == "stderr"]
