"""Run every benchmark in this folder, or those named: `python benchmarks/run.py simulator data`."""

import importlib
import sys
from pathlib import Path

NOT_BENCHMARKS = {"run", "common"}

if __name__ == "__main__":
    found = sorted(path.stem for path in Path(__file__).parent.glob("*.py") if path.stem not in NOT_BENCHMARKS)
    for name in sys.argv[1:] or found:
        if name not in found:
            sys.exit(f"there is no benchmark {name!r}; there are {', '.join(found)}")
        importlib.import_module(name).main()
