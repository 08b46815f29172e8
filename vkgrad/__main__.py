"""`python -m vkgrad`: see `vkgrad.cli`."""

import sys

from vkgrad.cli import main

sys.exit(main())
