"""Jobs: pods run to their end, counted once each."""
