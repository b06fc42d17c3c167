"""The algebra of leaving out one row: how far the others then move the parameters."""

import numpy as np
from jaxtyping import Float64


def moves_and_leverages(
    pulls: Float64[np.ndarray, "rows params"], slopes: Float64[np.ndarray, "slopes rows params"]
) -> tuple[Float64[np.ndarray, "rows params"], Float64[np.ndarray, " rows"]]:
    """(H − Σ s sᵀ over the row's own s)⁻¹ pull of every row, and how much of H those s are.

    Args:
        pulls: The slope of every row in the parameters.
        slopes: The s of every row, with H = I + Σ s sᵀ over all rows.
    """
    every = np.concatenate([pulls[None], slopes])
    toward, *own = _responses(every.reshape(-1, pulls.shape[1]), slopes).reshape(every.shape)
    own = np.array(own)
    shares = np.einsum("inp,jnp->nij", slopes, own)
    overlaps = np.einsum("inp,np->ni", slopes, toward)
    rest = np.eye(len(slopes)) - shares
    factors = np.linalg.solve(rest, overlaps[..., None])[..., 0]
    return toward + np.einsum("ni,inp->np", factors, own), np.linalg.eigvalsh(shares)[:, -1]


def _responses(
    pulls: Float64[np.ndarray, "pulls params"], slopes: Float64[np.ndarray, "slopes rows params"]
) -> Float64[np.ndarray, "pulls params"]:
    """H⁻¹ pulls with H = I + Σ s sᵀ, by the smaller of two systems of equations."""
    slopes = slopes.reshape(-1, slopes.shape[-1])
    if len(slopes) > slopes.shape[1]:
        system = slopes.T @ slopes
        system[np.diag_indices_from(system)] += 1
        return np.linalg.solve(system, pulls.T).T
    system = slopes @ slopes.T
    system[np.diag_indices_from(system)] += 1
    return pulls - np.linalg.solve(system, slopes @ pulls.T).T @ slopes
