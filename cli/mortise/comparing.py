"""Setting a comparison up: preflight, arms, sweeps and gates, all refused before anything runs."""

from typing import Any

from mortise import arms as arms_
from mortise import doctor, elf, gates, knobs, sweeps
from mortise.errors import WrongUse
from mortise.session import Session, Settings


def prepare(program: list[str], specs: list[str], settings: Settings) -> tuple[list[arms_.Arm], doctor.Diagnosis]:
    """The arms of a comparison and what preflight says; sweeps are filled into the settings."""
    found = doctor.diagnose(program[0])
    first = arms_.default_specs(found.as_shipped)[0]
    arms = arms_.parse_all(specs or sweeps.arms_for(settings.sweep_texts, first), found.as_shipped)
    settings.sweeps = sweeps.parse_all(settings.sweep_texts, arms, program)
    image, _ = elf.program_image(found.program)
    for text in knobs.unverified(settings.sweeps, arms, image):
        found.findings.append(doctor.Finding(doctor.WARNS, "unverified-knob", text))
    for text in sweeps.repeated(settings.sweeps):
        found.findings.append(doctor.Finding(doctor.NOTES, "repeated-value", text))
    for text in sweeps.too_short(settings.sweeps):
        found.findings.append(doctor.Finding(doctor.NOTES, "few-values", text))
    for text in sweeps.unseen(settings.sweep_texts, settings.memory):
        found.findings.append(doctor.Finding(doctor.NOTES, "unseen-memory", text))
    for text in settings.fail_if:
        gates.parse(text, [arm.name for arm in arms])
    if len(arms) < 2 and not settings.sweeps:
        raise WrongUse("a comparison needs two arms or more (for example --arms glibc,hslab), or one and a --sweep")
    if settings.repeat_inside > 1 or any(arm.kind not in ("environment", "command", "shipped") for arm in arms[1:]) or arms[0].preloads:
        found.demand()
    return arms, found


def measure(program: list[str], specs: list[str], settings: Settings) -> dict[str, Any]:
    """The whole comparison, with its progress on stderr."""
    from mortise.progress import Line

    arms, found = prepare(program, specs, settings)
    found.findings.extend([] if settings.stdin else doctor.waiting_input())
    with Line(settings.budget_s) as line:
        line.preflight(found, len(arms), settings)
        return Session(program, arms, settings, found.document(), line).run()


def specs_of(arm_list: list[str] | None) -> list[str]:
    found = [spec for text in arm_list or [] for spec in arms_.split(text)]
    if arm_list and (not found or "--" in found):
        raise WrongUse(f"--arms '{arm_list[0]}' names no arm: expected for example --arms glibc,hslab, or no --arms at all")
    return found
