import os
import sys

from processes import BUILD

sys.path.insert(0, str(BUILD / "python"))
os.environ["XDG_CACHE_HOME"] = str(BUILD / "cache")  # not the user's: which models were found exact
