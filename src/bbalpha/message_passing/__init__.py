"""The relatives of BB-α: power EP, VMP, stochastic EP, double-loop EP, SNEP, and a fixed point.

All of them are for models in which each likelihood factor depends on the parameters through one
projection, f = xₙᵀθ, under a Gaussian prior. Read the files in this order: `projections`, `tilted`,
`sites` and `diagonal_sites` (the building blocks), then `sweeps` (power EP), `double_loop`,
`variational`, `tied`, `stationary` and `server` (the methods), then `conjugate`, `scores`,
`references` and `comparing`, which compare them.
"""
