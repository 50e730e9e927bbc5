"""`python -m strands_sglang.cli`, for where the script is not on the path."""

import sys

from strands_sglang.cli import main

if __name__ == "__main__":
    sys.exit(main())
