"""The algebra of leaving out one row: how far the parameters move without it.

`left_out` uses it to predict each training row as if it had not been in the fit.
"""

import numpy as np
from jaxtyping import Float64

HIGHEST_LEVERAGE = 0.7  # of rows whose leave-one-out scores can be trusted (docs/tables.md)


def are_reliable(leverages: Float64[np.ndarray, " rows"]) -> np.ndarray:
    """Whether each row has so little leverage that it can be left out without refitting."""
    return leverages <= HIGHEST_LEVERAGE


def moves_and_leverages(
    pulls: Float64[np.ndarray, "rows params"],
    slopes: Float64[np.ndarray, "slopes rows params"],
    repeats: float = 1.0,
) -> tuple[Float64[np.ndarray, "rows params"], Float64[np.ndarray, " rows"]]:
    """How far the parameters move without each row, and the leverage of each row.

    The move is (H − Σ s sᵀ)⁻¹ pull, where H = I + repeats Σ s sᵀ sums over all rows and the
    difference over the row's own s, once. The leverage is the largest share of H that the row's own
    s make up.

    Args:
        pulls: The slope of every row in the parameters.
        slopes: The vectors s of every row.
        repeats: How many rows of the table each of these rows represents.
    """
    every = np.concatenate([pulls[None], slopes])
    all_slopes = np.sqrt(repeats) * slopes
    toward, *own = _responses(every.reshape(-1, pulls.shape[1]), all_slopes).reshape(every.shape)
    own = np.array(own)
    shares = np.einsum("inp,jnp->nij", slopes, own)
    overlaps = np.einsum("inp,np->ni", slopes, toward)
    rest = np.eye(len(slopes)) - shares
    factors = np.linalg.solve(rest, overlaps[..., None])[..., 0]
    return toward + np.einsum("ni,inp->np", factors, own), np.linalg.eigvalsh(shares)[:, -1]


def _responses(
    pulls: Float64[np.ndarray, "pulls params"], slopes: Float64[np.ndarray, "slopes rows params"]
) -> Float64[np.ndarray, "pulls params"]:
    """H⁻¹ pulls with H = I + Σ s sᵀ, from the smaller of two equivalent systems of equations."""
    slopes = slopes.reshape(-1, slopes.shape[-1])
    if len(slopes) > slopes.shape[1]:
        system = slopes.T @ slopes
        system[np.diag_indices_from(system)] += 1
        return np.linalg.solve(system, pulls.T).T
    system = slopes @ slopes.T
    system[np.diag_indices_from(system)] += 1
    return pulls - np.linalg.solve(system, slopes @ pulls.T).T @ slopes
