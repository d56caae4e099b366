"""Turn taking: TurnNat's arithmetic, the timing model, perturbations and the benchmark of predictors."""
