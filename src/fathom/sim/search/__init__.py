"""Looking for what breaks: many seeds, chosen faults, smaller runs, the zoo of known bugs."""
