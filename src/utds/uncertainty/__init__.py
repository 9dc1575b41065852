"""What sharing changes about what the critics know: Γ over the data, over training, and in a toy of the plane."""
