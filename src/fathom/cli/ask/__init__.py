"""The commands that ask: why, status, timeline, coupling, decisions, top, page."""
