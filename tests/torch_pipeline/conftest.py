import sys

from processes import BUILD

sys.path.insert(0, str(BUILD / "python"))
