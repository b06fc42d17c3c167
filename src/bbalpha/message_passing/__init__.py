"""The relatives of BB-α: power EP, VMP, stochastic EP, double-loop EP, SNEP, and a fixed point.

All of them are for factors that see the parameters through one projection, f = xₙᵀθ, under a
Gaussian prior. Read the files in this order: `projections`, `tilted`, `sites`, `diagonal_sites`
(the nouns), then `sweeps` (power EP), `double_loop`, `variational`, `tied`, `stationary`, `server`;
then `conjugate`, `scores`, `references` and `comparing`, which put them side by side.
"""
