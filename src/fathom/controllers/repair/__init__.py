"""Repair: what others left behind, and proposals for people to decide."""
