"""What a DBA does once before a composition can run: databases, standing accounts, ledger, gate, targets, enrolment.

On a real server the same scripts come from `dponectl ledger render`, `dponectl gate render` and `dponectl target render`.
"""
