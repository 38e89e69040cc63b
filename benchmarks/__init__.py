"""Measurements of the product, each one command that writes its own table. See docs/performance.md."""
