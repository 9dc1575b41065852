#!/usr/bin/env bash
# The data of this page: --seed 7, which no setting was chosen on. Set MINARI_DATASETS_PATH to a folder of its own first.
set -euo pipefail
make() { utds data generate "$1" --kinds $2 --episodes "$3" --seed 7; }
make walker-walk medium-replay 80
make walker-run replay 200
make quadruped-walk medium-replay 80
make quadruped-run replay 200
make jaco-reach-top-left medium-replay 320
make jaco-reach-bottom-right replay 800
make pointmass-reach-top-right medium-replay 8
make pointmass-reach-bottom-right replay 150
# Of far.toml and far-pointmass.toml
make walker-walk "medium expert" 80
make walker-flip replay 200
make quadruped-walk "medium expert" 80
make quadruped-jump replay 200
make jaco-reach-top-left "medium expert" 320
make pointmass-reach-top-right "medium expert" 8
make pointmass-reach-bottom-left replay 150
