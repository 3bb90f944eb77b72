"""The peers: obtained by package name, built once, cached in build/peers, and proven to serve malloc.

A peer that cannot be had is never silently missing: it comes back with the reason.
"""

import dataclasses
import glob
import hashlib
import json
import os
import pathlib
import shutil
import subprocess
import tomllib
import zipfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
CACHE = ROOT / "build" / "peers"


class Missing(Exception):
    """The peer cannot be had here; the message is the reason."""


@dataclasses.dataclass
class Arm:
    """One allocator under test: what to preload, and what it needs."""

    name: str
    title: str
    kind: str
    version: str
    library: str
    environment: dict[str, str] = dataclasses.field(default_factory=dict)
    serves: str = ""  # what the path of the serving library holds, where that is not the preloaded one


def recipes() -> dict[str, dict]:
    """All peers by name, as peers.toml describes them."""
    return tomllib.loads((ROOT / "bench" / "peers.toml").read_text())


def _shell(script: str, log: pathlib.Path | None = None, **variables: str) -> str:
    """Runs a recipe's script; the last lines of its log are the reason when it fails."""
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script],
        env=os.environ | variables,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    if log:
        log.write_text(done.stdout)
    if done.returncode:
        last = [line for line in done.stdout.splitlines() if line.strip()][-1:] or ["no output"]
        raise Missing(f"its build failed: {last[0].strip()[:160]}" + (f" (log: {log})" if log else ""))
    return done.stdout.strip()


def _tool(name: str, package: str) -> str:
    path = shutil.which(name)
    if not path:
        raise Missing(f"{name} is not installed (Debian package {package})")
    return path


def _fetch_crate(crate: str, place: pathlib.Path) -> tuple[pathlib.Path, str]:
    """The newest published sources of a crate, through cargo; returns the folder and the crate's version."""
    source = place / "vendor" / crate
    if not source.exists():
        cargo = _tool("cargo", "cargo-web")
        (place / "src").mkdir(parents=True, exist_ok=True)
        (place / "src" / "lib.rs").write_text("")
        (place / "Cargo.toml").write_text(
            f'[package]\nname = "fetch"\nversion = "0.0.0"\nedition = "2021"\n[workspace]\n'
            f'[dependencies]\n"{crate}" = "*"\n'
        )
        done = subprocess.run([cargo, "vendor", "-q"], cwd=place, text=True, capture_output=True)
        if done.returncode or not source.exists():
            shutil.rmtree(place / "vendor", ignore_errors=True)
            raise Missing(f"cargo cannot fetch the crate {crate}: {done.stderr.strip().splitlines()[-1:]}")
    version = tomllib.loads((source / "Cargo.toml").read_text())["package"]["version"]
    return source, version


def _fetch_wheel(package: str, place: pathlib.Path) -> tuple[pathlib.Path, str]:
    """The newest wheel of a Python package, unpacked; returns the folder and the version."""
    place.mkdir(parents=True, exist_ok=True)
    if not list(place.glob("*.whl")):
        pip = ROOT / "build" / "venv" / "bin" / "pip"
        done = subprocess.run(
            [pip, "download", "-q", "--disable-pip-version-check", "--no-deps", "-d", place, package],
            text=True,
            capture_output=True,
        )
        if done.returncode:
            raise Missing(f"pip cannot fetch {package}: {done.stderr.strip().splitlines()[-1:]}")
    wheel = next(place.glob("*.whl"))
    zipfile.ZipFile(wheel).extractall(place)
    return place, wheel.name.split("-")[1]


def _debian_version(package: str) -> str:
    done = subprocess.run(
        ["dpkg-query", "-W", "-f=${db:Status-Status} ${Version}", package], text=True, capture_output=True
    )
    status, _, version = done.stdout.partition(" ")
    if status != "installed":
        raise Missing(f"the Debian package {package} is not installed (run packaging/setup.sh bench)")
    return version


def _make(name: str, recipe: dict) -> dict[str, str]:
    """Fetches and builds one peer; returns what the cache keeps of it."""
    place = CACHE / name
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    if "apt" in recipe:
        source, version = pathlib.Path("/"), _debian_version(recipe["apt"])
    elif "crate" in recipe:
        source, version = _fetch_crate(recipe["crate"], CACHE / "sources" / recipe["crate"])
        # Builds write into their tree; two peers may share one crate.
        source = pathlib.Path(shutil.copytree(source, place / "source", symlinks=True))
    else:
        source, version = _fetch_wheel(recipe["wheel"], CACHE / "sources" / recipe["wheel"])
    if "version" in recipe:
        version = _shell(recipe["version"], SRC=str(source))
    if "library" in recipe:
        found = sorted(glob.glob(str(source / recipe["library"].lstrip("/"))))
        if not found:
            raise Missing(f"its package holds no {recipe['library']}")
        library = found[0]
    else:
        library = str(place / f"lib{name}.so")
        _shell(
            recipe["build"],
            place / "build.log",
            SRC=str(source),
            OUT=library,
            VERSION=version,
            BENCH=str(ROOT / "bench"),
            VENDOR=str(CACHE / "sources" / recipe.get("crate", "") / "vendor"),
        )
        shutil.rmtree(place / "source", ignore_errors=True)
    return {"version": _dotted(version), "library": library}


def _dotted(version: str) -> str:
    """mimalloc writes 30302 for 3.3.2."""
    if version.isdigit() and len(version) == 5:
        return f"{version[0]}.{int(version[1:3])}.{int(version[3:])}"
    return version


def obtain(name: str, recipe: dict, say) -> Arm:
    """The peer, from the cache where its recipe has not changed. Raises Missing with the reason."""
    mark = hashlib.sha256(json.dumps(recipe, sort_keys=True).encode()).hexdigest()
    kept = CACHE / name / "peer.json"
    facts = json.loads(kept.read_text()) if kept.exists() else {}
    if facts.get("recipe") != mark or not os.path.exists(facts.get("library", "")):
        say(f"building the peer {name}")
        facts = _make(name, recipe) | {"recipe": mark}
        kept.write_text(json.dumps(facts, indent=1))
    here = os.path.dirname(facts["library"])
    environment = {key: value.replace("$HERE", here) for key, value in recipe.get("environment", {}).items()}
    return Arm(
        name,
        recipe["title"],
        recipe["kind"],
        facts["version"],
        facts["library"],
        environment,
        recipe.get("serves", ""),
    )


def prove(arm: Arm, programs: pathlib.Path) -> None:
    """Runs a workload on the arm and has it say which library its malloc comes from. Raises Missing."""
    command = [programs / "mix", "--threads", "2", "--ops", "200000"]
    done = subprocess.run(
        command,
        env=os.environ | arm.environment | {"LD_PRELOAD": arm.library},
        text=True,
        capture_output=True,
        timeout=60,
    )
    if done.returncode:
        why = (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1]
        raise Missing(f"a small program fails on it: {why[:160]}")
    served = json.loads(done.stdout)["malloc"]
    if arm.serves and arm.serves in served:
        return
    if os.path.realpath(served) != os.path.realpath(arm.library):
        raise Missing(f"it is preloaded, but malloc comes from {served}")


def gather(names: list[str], programs: pathlib.Path, say) -> tuple[dict[str, Arm], dict[str, str]]:
    """The peers asked for: those that serve, and for each of the others the reason why not."""
    have: dict[str, Arm] = {}
    missing: dict[str, str] = {}
    for name, recipe in recipes().items():
        if name not in names:
            continue
        try:
            arm = obtain(name, recipe, say)
            prove(arm, programs)
            have[name] = arm
        except (Missing, subprocess.TimeoutExpired) as reason:
            missing[name] = str(reason)
    return have, missing
