"""What tests of several rooms share."""

from pathlib import Path

import pytest

TINY = Path(__file__).parent / "tiny.py"


@pytest.fixture
def tiny(monkeypatch, tmp_path):
    """The domain `tinymass`, known to this process and those it starts, and an empty folder for datasets."""
    import utds.domains

    monkeypatch.setenv("UTDS_DOMAINS", str(TINY))
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "datasets"))
    if "tinymass" not in utds.domains.registry._DOMAINS:
        utds.domains.registry._load_own.cache_clear()
    return utds.domains.get("tinymass")
