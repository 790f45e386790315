"""Detectors in the API server, where every write passes. They report what they see, and act on nothing.

The judgement is in `explain/coupling/fights.py`, which is pure; here are its inputs, a clock and its reports.
"""
