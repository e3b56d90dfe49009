"""SlimPack: training on documents of very different lengths, at full speed.

`python -m slimpack.worker RUN.toml`, started by torchrun, is one process of a training run.
`python -m slimpack.tensorboard RUN_DIR` shows a run's metrics in TensorBoard.
"""
