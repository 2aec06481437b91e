"""`python -m harness` is `reproof`."""

import sys

from .cli import main

sys.exit(main())
