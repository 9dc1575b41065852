"""The public names: the same for Python and for type checkers, each where it is said to be, and none loaded early."""

import ast
import subprocess
import sys
from pathlib import Path

import griffe
import pytest

import utds
from utds import adviser, algorithms, training


def names_for_type_checkers() -> set[str]:
    tree = ast.parse(Path(utds.__file__).read_text(encoding="utf-8"))
    (block,) = (node for node in tree.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING")
    imports = [node for node in block.body if isinstance(node, ast.ImportFrom)]
    return {alias.asname or alias.name for node in imports for alias in node.names}


def test_type_checkers_know_the_names_that_python_loads():
    assert names_for_type_checkers() | {"Error", "__version__"} == set(utds.__all__) == set(dir(utds))
    assert all(getattr(utds, name) is not None for name in utds.__all__)


def test_names_are_those_of_the_modules():
    assert utds.advise is adviser.advise and utds.train is training.train
    assert utds.make_algorithm is algorithms.make


@pytest.mark.parametrize("found", algorithms.shipped(), ids=lambda found: found.name)
def test_every_algorithm_that_ships_is_a_public_name(found):
    name = found.kind.__name__
    assert name in utds.__all__ and getattr(utds, name) is getattr(algorithms, name) is found.kind


def test_a_name_that_is_not_there_is_an_attribute_error():
    with pytest.raises(AttributeError, match="has no attribute 'nonsense'"):
        utds.nonsense  # noqa: B018
    with pytest.raises(AttributeError, match="make_algorithm"):
        utds.algorithm  # noqa: B018
    with pytest.raises(AttributeError, match="has no attribute 'nonsense'"):
        training.nonsense  # noqa: B018


def test_import_loads_neither_jax_nor_numpy():
    code = "import sys, utds; print(sorted({'jax', 'numpy', 'mujoco'} & set(sys.modules)))"
    found = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert found.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("module", "unloaded"),
    [("utds.training.overview", {"jax", "mujoco", "scipy"}), ("utds.report, utds.training.trainer", {"scipy.stats"})],
)
def test_what_takes_long_to_load_is_not_loaded_for_nothing(module, unloaded):
    code = f"import sys, {module}; print(sorted({unloaded!r} & set(sys.modules)))"
    found = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert found.stdout.strip() == "[]"


def test_the_reference_finds_every_name_without_running_the_package():
    """As the site is built: from the source alone, with the descriptions of fields."""
    root = Path(__file__).parents[1]
    extensions = griffe.load_extensions(root / "docs" / "hooks" / "described_fields.py")
    options = {"search_paths": [str(root / "src")], "allow_inspection": False, "extensions": extensions}
    package = griffe.load("utds", resolve_aliases=True, resolve_implicit=True, **options)
    for name in set(utds.__all__) - {"__version__"}:
        assert package[name].docstring, name
    assert "    num_critics: " in package["UTDS"].docstring.value
