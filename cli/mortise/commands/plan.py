"""`mortise plan`, `mortise cell`, `mortise report`: one comparison on many machines."""

from pathlib import Path
from typing import Annotated

import typer

from mortise import formats, reporting
from mortise.commands import options
from mortise.errors import WrongUse


def plan(
    program: options.Program = None,
    output: Annotated[Path, typer.Option("--output", "-o", help="Where the plan goes.")] = Path("plan.json"),
    cells: Annotated[int, typer.Option("--cells", min=1, help="How many cells.")] = 20,
    rounds: Annotated[int, typer.Option("--rounds", min=1, help="How many time rounds in each.")] = 5,
    arm_list: options.Arms = None,
    time: options.Time = "cpu",
    mem: options.Mem = "peak",
    metric_regex: options.MetricRegex = None,
    metric_less: options.MetricLess = False,
    resolve: options.Resolve = "2%",
    warmup: options.Warmup = 1,
    repeat_inside: options.RepeatInside = 1,
    sweep: options.SweepTexts = None,
    check: options.Check = "stdout",
    stdin: options.Stdin = None,
    ready: options.Ready = None,
    load: options.Load = None,
    stop: options.Stop = None,
    timeout: options.Timeout = "1h",
    seed: options.Seed = None,
) -> None:
    """Cut a comparison into cells, for GNU parallel, Slurm arrays or Kubernetes jobs.

    For example: parallel -j1 --sshloginfile hosts mortise cell plan.json {} -o out ::: $(seq 0 19)
    """
    given = locals()
    if not program:
        raise WrongUse("no program to plan for: expected 'mortise plan [OPTION]... -- PROG [ARG]...'")
    formats.check_writable(output)
    from mortise import comparing, plans

    document = plans.make(program, comparing.specs_of(arm_list), given, cells)
    formats.write(output, formats.dumps(document))
    print(
        f"{output}: cells 0 to {cells - 1}; 'mortise cell {output} INDEX -o DIR' for each, then 'mortise report DIR'"
    )


def cell(
    plan_path: Annotated[Path, typer.Argument(..., metavar="PLAN", help="What 'mortise plan' wrote.")],
    index: Annotated[int | None, typer.Argument(..., help="Which cell.")] = None,
    output: Annotated[Path, typer.Option("--output", "-o", help="The folder for results.")] = Path("cells"),
    node: Annotated[str | None, typer.Option("--node", help="This machine's name (default: its host name).")] = None,
    cluster: Annotated[str | None, typer.Option("--cluster", help="Submit every cell: slurm, or local.")] = None,
    slurm: Annotated[
        list[str] | None, typer.Option("--slurm", help="KEY=VALUE for sbatch, e.g. partition=x.")
    ] = None,
) -> None:
    """Run one cell of a plan, or submit all of them to a cluster."""
    from mortise import plan_file, plans

    document = plan_file.read(plan_path)
    indices = [entry["index"] for entry in document["cells"]]
    if cluster is None:
        if index is None:
            raise WrongUse("which cell? expected 'mortise cell PLAN INDEX', or --cluster to submit all of them")
        print(plans.run_cell(document, index, output, node))
        return
    from mortise import cluster as clusters

    where = options.choice("--cluster", cluster, ("slurm", "local"))
    for path in clusters.submit(plan_path, indices, output, where, slurm or []):
        print(path)


def report(
    folder: Annotated[Path, typer.Argument(..., help="The folder with the cells' results.")],
    fail_if: options.FailIf = None,
    json_path: options.Json = None,
    html_path: options.Html = None,
    markdown: options.Markdown = None,
) -> None:
    """Put cells together and report on them as 'mortise compare' does."""
    from mortise import gates, plans

    outputs = {"json": json_path, "html": html_path, "markdown": markdown}
    reporting.check(outputs)
    with formats.whole(folder):
        document = plans.merge(plans.read(folder))
        for text in fail_if or []:
            gates.parse(text, list(document["arms"]))
        document["settings"]["fail_if"] = fail_if or []
        status = reporting.report(document, outputs)
    raise typer.Exit(status)
