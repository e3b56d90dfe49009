import sys
from pathlib import Path

import torch

sys.path.append(str(Path(__file__).parents[1] / "torch_pipeline"))  # families.py
torch.set_num_threads(1)  # tiny tensors; threads would only wait for each other
