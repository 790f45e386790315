"""Search for violations: many seeds, chosen faults, shrinking, the zoo of known bugs, benchmarks."""
