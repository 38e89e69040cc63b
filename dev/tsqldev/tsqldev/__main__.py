"""`python -m tsqldev`."""

import sys

from tsqldev.cli import main

sys.exit(main())
