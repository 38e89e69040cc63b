"""The attempts page."""
