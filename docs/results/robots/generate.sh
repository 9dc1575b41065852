#!/usr/bin/env bash
# The data of the matrix `robots`: --seed 11, which nothing was searched or tuned on. Set MINARI_DATASETS_PATH to a folder of its own first.
set -euo pipefail
for task in walker-{stand,walk,run,flip} quadruped-{walk,run,jump,roll-fast} jaco-reach-{top,bottom}-{left,right}; do
  own=80 shared=200
  [[ $task == jaco* ]] && own=320 shared=800  # its episodes are a quarter as long
  utds data generate "$task" --kinds random medium-replay medium expert --episodes "$own" --seed 11
  utds data generate "$task" --kinds replay --episodes "$shared" --seed 11
done
for task in walker-{stand,walk,run,flip}; do  # of ablations/uniform-source.toml
  utds data generate "$task" --kinds uniform --episodes 200 --seed 11
done
