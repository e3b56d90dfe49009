import os

import torch
from processes import BUILD

os.environ["XDG_CACHE_HOME"] = str(BUILD / "cache")  # not the user's: which models were found exact
torch.set_num_threads(1)  # tiny tensors; threads would only wait for each other
