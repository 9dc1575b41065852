#!/usr/bin/env bash
# The data that presets were searched on: --seed 1. Set MINARI_DATASETS_PATH to a folder of its own first.
set -euo pipefail
make() { utds data generate "$1" --kinds "$2" --episodes "$3" --seed 1; }
make walker-flip medium-replay 80
make walker-run replay 200
make quadruped-jump medium-replay 80
make quadruped-walk replay 200
make jaco-reach-top-right medium-replay 320
make jaco-reach-top-left replay 800
make walker-run medium-replay 80
make walker-walk replay 200
