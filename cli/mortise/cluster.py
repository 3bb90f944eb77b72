"""Submitting the cells of a plan as one array job. Each job is `mortise cell`, as a user or GNU parallel would run it;
the local executor takes the same way as Slurm does.
"""

import sys
from pathlib import Path
from typing import Any

from mortise.errors import CannotWork, RunFailed, WrongUse


def submit(plan_path: Path, indices: list[int], folder: Path, cluster: str, extra: list[str]) -> list[str]:
    """Runs every cell and waits for all; gives the paths of the results."""
    settings = dict(_pair(text) for text in extra)
    try:
        import submitit
    except ImportError:
        raise WrongUse("--cluster needs the package submitit: install mortise with the extra 'slurm'") from None
    try:
        executor = submitit.AutoExecutor(folder=folder / "log", cluster=cluster)
    except RuntimeError:
        raise CannotWork("no Slurm here: 'srun' is not on PATH; run this on a cluster's login node, or with --cluster local") from None
    executor.update_parameters(timeout_min=24 * 60, name="mortise")
    program = str(Path(sys.argv[0]).resolve())
    cell = [sys.executable, program, "cell", str(plan_path.resolve()), "--output", str(folder.resolve())]
    command = submitit.helpers.CommandFunction(cell, verbose=False)
    if cluster == "slurm":  # a node to itself for each cell
        executor.update_parameters(slurm_exclusive=True, **{f"slurm_{key}": value for key, value in settings.items()})
        return [_result(job) for job in executor.map_array(command, [str(index) for index in indices])]
    # On one machine cells side by side would measure each other.
    return [_result(executor.submit(command, str(index))) for index in indices]


def _pair(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals:
        raise WrongUse(f"--slurm '{text}': expected KEY=VALUE, for example partition=long")
    return key, value


def _result(job: Any) -> str:
    try:
        return str(job.result()).strip()
    except Exception as e:
        said = [line for line in str(e).splitlines() if line.startswith("mortise: ")] or str(e).strip().splitlines()
        raise RunFailed(f"a cell failed: {said[-1].removeprefix('mortise: ')}") from None
