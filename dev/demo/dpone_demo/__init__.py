"""The main job on the embedded stack, from an empty machine to a reconciled composition."""
