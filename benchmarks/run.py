"""Run every benchmark in this folder, or those named: `python benchmarks/run.py simulator data`.

Exit code 1 if a requirement is missed by more than the noise that it states.
"""

import importlib
import sys
from pathlib import Path

from common import verdict

NOT_BENCHMARKS = {"run", "common", "torch_td3"}

if __name__ == "__main__":
    found = sorted(path.stem for path in Path(__file__).parent.glob("*.py") if path.stem not in NOT_BENCHMARKS)
    for name in sys.argv[1:] or found:
        if name not in found:
            sys.exit(f"there is no benchmark {name!r}; there are {', '.join(found)}")
        importlib.import_module(name).main()
    verdict()
