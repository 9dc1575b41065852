"""The shell completion that docs/start/install.md describes, asked as bash asks it."""

import re
import subprocess
import sys
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "start" / "install.md"
ASK = """
source "$1"
ask() { COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=(); _tyro_utds; echo "${COMPREPLY[@]}"; }
ask utds tra
ask utds data gen
ask utds train --alg
"""


def test_bash_completes_commands_and_options(tmp_path):
    (written,) = re.findall(r"utds (--tyro-write-completion bash) \S+", PAGE.read_text(encoding="utf-8"))
    script = tmp_path / "utds"
    subprocess.run([sys.executable, "-m", "utds", *written.split(), str(script)], check=True, timeout=120)
    done = subprocess.run(
        ["bash", "--norc", "-c", ASK, "bash", str(script)], capture_output=True, text=True, timeout=120
    )
    assert done.stdout.split() == ["train", "generate", "--algo"], done.stderr
