"""The controller kit: today a work queue and the loop that drains it. Never here: what to do about an
object. Next rooms: `schedule`, `controllers`."""
