"""`dponectl`: what a DBA or an operator does by hand. Nothing here runs inside a task."""
