"""Prints the requirements that a pyproject.toml declares (with every extra), one a line: what the project's own environment holds."""
import sys
import tomllib

with open(sys.argv[1], "rb") as f:
    project = tomllib.load(f)["project"]
wanted = list(project.get("dependencies", []))
for extra in project.get("optional-dependencies", {}).values():
    wanted += extra
print("\n".join(dict.fromkeys(wanted)))
