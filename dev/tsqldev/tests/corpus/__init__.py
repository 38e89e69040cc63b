"""The recorded batches."""
