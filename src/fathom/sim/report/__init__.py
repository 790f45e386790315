"""What a run was: recorded, replayed, told as a timeline, kept in a file."""
