"""Making datasets: online TD3 that records everything, and rollouts of policies."""
