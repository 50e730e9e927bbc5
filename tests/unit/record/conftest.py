"""The stage of the provider's tests, for facts that the provider writes."""

from tests.unit.provider.conftest import stage

__all__ = ["stage"]
