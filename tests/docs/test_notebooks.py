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


# The kernel speaks to this process alone, over the loopback interface.
@pytest.mark.filterwarnings("ignore:.*:DeprecationWarning:(zmq|jupyter_client|nbclient|tornado).*")
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_it_runs(path, tmp_path, monkeypatch):
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "datasets"))
    monkeypatch.setenv("PATH", os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"])))
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    NotebookClient(
        notebook, timeout=600, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}
    ).execute()
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert any("text/html" in output.get("data", {}) for cell in cells for output in cell.outputs)
    assert not [o.text for cell in cells for o in cell.outputs if o.get("name") == "stderr"], "nothing warns"
