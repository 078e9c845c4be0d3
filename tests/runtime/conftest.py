"""The device that refuses to mix is next to the tests of training."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "training"))
