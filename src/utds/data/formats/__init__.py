"""Foreign formats, one file per format: `read` gives a `Recording`, `write` makes the format's files from a dataset.

`importing` recognises a source, reads it and makes checked datasets of it.

arrays     one .npz with the columns of a dataset by name
d4rl       .hdf5 or .npz with observations, actions, rewards, terminals, timeouts
exorl      folder of episode_<index>_<length>.npz files, as ExORL's and the released UTDS data come
lerobot    LeRobot's folders: parquet files and meta/info.json
minari     any dataset of numbers in Minari's store
ogbench    .npz with observations, actions, terminals, qpos, qvel
rlds       .npz with RLDS steps, nested names joined by '/'
table      .csv or .parquet, one row per step
"""
