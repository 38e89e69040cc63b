"""The authority family of the nonproduction campaign: policy, grants, plans and their signature subject.

These documents never open a production target, and a receipt of this family is never read as one of another.
"""
