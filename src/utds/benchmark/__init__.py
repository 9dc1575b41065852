"""The benchmark: matrices of runs, planned, run on one machine or many, taken up again, aggregated."""
