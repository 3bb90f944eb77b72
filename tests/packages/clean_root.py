"""A root of its own: this machine's system as it is, without the tree and without what else lies in /tmp. What is installed there is
gone afterwards.
"""

import os
import shlex
import subprocess
from pathlib import Path

import pytest

from packages.conftest import WATCHDOG_S
from support.allocators import ROOT, Ran

ENTER = """
set -e
mount --make-rprivate / 2>/dev/null || ! grep ' shared:' /proc/self/mountinfo  # where / is no mount (in a chroot), none may be shared
room=/mnt  # of this mount namespace alone
mount -t tmpfs none "$room"
mkdir "$room/upper" "$room/work" "$room/new"
mount -t overlay overlay -o "lowerdir=/,upperdir=$room/upper,workdir=$room/work" "$room/new"
mount -t tmpfs none "$room/new/tmp"
cp -r -- {files} "$room/new/tmp/"
mkdir -p "$room/new{tree}"  # a tree in /tmp is gone already
mount -t tmpfs none "$room/new{tree}"
mount --rbind /proc "$room/new/proc"
mount -t tmpfs none "$room/new/dev"  # a few devices one by one: what goes wrong in there must not reach this machine's
for device in null zero full random urandom tty; do
  touch "$room/new/dev/$device"
  mount --bind "/dev/$device" "$room/new/dev/$device"
done
ln -s /proc/self/fd "$room/new/dev/fd"
chmod 1777 "$room/new/tmp"
exec chroot "$room/new" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/tmp LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive \
  {environment} bash -ec {script}
"""


def run_in_clean_root(script: str, files: list[Path], cwd: str = "/tmp") -> Ran:
    """Runs a script as root in there, with copies of the files in /tmp."""
    keep = [f"{key}={value}" for key, value in os.environ.items() if key.lower().endswith("_proxy")]
    text = ENTER.format(files=" ".join(shlex.quote(str(file)) for file in files), tree=ROOT, script=shlex.quote(f"cd {cwd}\n{script}"),
                        environment=" ".join(map(shlex.quote, keep)))
    apart = ["unshare", *([] if os.geteuid() == 0 else ["-r"]), "-m", "--propagation", "unchanged"]
    may_mount = subprocess.run([*apart, "mount", "-t", "tmpfs", "none", "/mnt"], capture_output=True, text=True)
    if "permi" in may_mount.stderr:  # "Operation not permitted", "permission denied"
        pytest.skip(f"nothing may be mounted here, as in a container without privileges: {may_mount.stderr.strip()}")
    done = subprocess.run([*apart, "bash", "-c", text], capture_output=True, text=True, timeout=WATCHDOG_S)
    return Ran(done.returncode, done.stdout, done.stderr)
