"""The paper's statements on linear MDPs, each an experiment: `measure(rng, size, advance)`, then `report(result)`."""
