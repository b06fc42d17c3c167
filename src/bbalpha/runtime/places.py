"""What the environment says about the place of a process among others; read without jax."""

import os

# Environment variables, by the argument of `join_processes` that they must agree with. Those of a
# cluster count only inside it, that is, if the first variable of the line is set.
OURS = {
    "address": "JAX_COORDINATOR_ADDRESS",
    "num_processes": "JAX_NUM_PROCESSES",
    "process_id": "JAX_PROCESS_ID",
}
CLUSTERS = {
    "SLURM_STEP_NODELIST": {"num_processes": "SLURM_NTASKS", "process_id": "SLURM_PROCID"},
    "OMPI_COMM_WORLD_SIZE": {
        "num_processes": "OMPI_COMM_WORLD_SIZE",
        "process_id": "OMPI_COMM_WORLD_RANK",
    },
    "PMI_SIZE": {"num_processes": "PMI_SIZE", "process_id": "PMI_RANK"},  # MPICH, Intel MPI
    "JOB_COMPLETION_INDEX": {"process_id": "JOB_COMPLETION_INDEX"},  # Kubernetes
}
MPI = ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE")


def is_one_of_several() -> bool:
    """Whether the environment says that this process has been started together with others."""
    if os.environ.get(OURS["address"]):
        return True
    counts = {mark: variables.get("num_processes") for mark, variables in CLUSTERS.items()}
    return any(
        mark in os.environ and (count is None or os.environ.get(count, "1") != "1")
        for mark, count in counts.items()
    )


def is_started_by_mpi() -> bool:
    """Whether MPI has started this process together with others."""
    return any(os.environ.get(size, "1") != "1" for size in MPI)
