"""What was recorded: datasets, their store, relabelling, and the pool that a learner samples."""
