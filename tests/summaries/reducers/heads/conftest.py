"""Laws of per-head statistics hold however the rows are cut into bands."""

from tests.summaries.test_laws import tiles as tiles
