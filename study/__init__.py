"""Old against new: both protocols on the same workload, the same faults and the same clock, and what came of it."""
