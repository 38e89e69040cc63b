"""Frozen records, canonical JSON, digests, state machines and errors. Pure: no I/O, no clock, no driver.

canonical     the two JSON encoders and strict reading     rules          the validation vocabulary
ownership     owner keys, physical guards, claims          activation     the request, plain and nonproduction
attempt       one try at exact epochs                      principal      journaled identities and task coordinates
proof         the three proofs of an attempt               gate_evidence  what was observed of a login gate
operation     the ledger's view of an attempt              lifecycle      the state machines
qualification owner, operation and invocation key          snapshot(_subjects)  the one-time EXCHANGE of a table
nonproduction policy, grants and plans of the campaign     errors         the tree that everything raises
"""
