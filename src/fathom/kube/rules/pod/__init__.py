"""Rules of pods, and of pod templates."""
