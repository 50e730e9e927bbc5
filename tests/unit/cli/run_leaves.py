"""A module that ends the process that imports it."""

from __future__ import annotations

import sys

sys.exit(3)
