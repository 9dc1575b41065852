"""The benchmark: matrices of runs, planned, run on one machine or many and taken up again."""
