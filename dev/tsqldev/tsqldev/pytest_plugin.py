"""Fixtures of the endpoint for tests."""
