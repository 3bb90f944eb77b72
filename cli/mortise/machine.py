"""The machine that measures: facts that decide what a result can mean, kept with every result."""

import os
import platform
from pathlib import Path

import psutil

from mortise import __version__


def facts() -> dict:
    """Everything a reader needs to judge whether this machine can be believed, and to repeat the run elsewhere."""
    return {
        "kernel": platform.release(),
        "libc": " ".join(platform.libc_ver()).strip(),
        "machine": platform.machine(),
        "cpu": cpu_model(),
        "cpus": len(os.sched_getaffinity(0)),
        "memory_bytes": psutil.virtual_memory().total,
        "page_bytes": os.sysconf("SC_PAGESIZE"),
        "transparent_huge_pages": chosen(Path("/sys/kernel/mm/transparent_hugepage/enabled")),
        "governor": text(Path("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")) or "unknown",
        "virtual": "hypervisor" in text(Path("/proc/cpuinfo")),
        "aslr": text(Path("/proc/sys/kernel/randomize_va_space")) != "0",
        "counters": Path("/sys/bus/event_source/devices/cpu").exists(),
        "load": load(),
        "mortise": __version__,
    }


def load() -> float:
    """How many tasks wanted to run, on average of the last minute."""
    return round(os.getloadavg()[0], 2)


def text(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""


def chosen(path: Path) -> str:
    """`always [madvise] never` is `madvise`."""
    words = text(path)
    return words.partition("[")[2].partition("]")[0] or words or "unknown"


def cpu_model() -> str:
    for line in text(Path("/proc/cpuinfo")).splitlines():
        if line.startswith(("model name", "CPU implementer")):
            return line.partition(":")[2].strip()
    return platform.processor() or "unknown"


def steal_seconds() -> float:
    """What other guests of the host took from this one so far, all CPUs together."""
    return float(getattr(psutil.cpu_times(), "steal", 0.0))
