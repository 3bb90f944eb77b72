"""The picture in the terminal: marks where they belong, none lost, none for what has no place."""

from mortise import scatter


def document(**arms):
    return {
        "settings": {"metric_regex": None, "time": "cpu", "memory": "peak"},
        "baseline_bytes": 0,
        "curves": {},
        "arms": {n: {"failure": None, "medians": {"cpu_s": t, "peak_rss_bytes": m}} for n, (t, m) in arms.items()},
    }


def test_left_and_low_is_good():
    lines = scatter.draw(document(good=(1.0, 1 << 20), bad=(2.0, 8 << 20)))
    good = next((row, line.index("a")) for row, line in enumerate(lines) if "a" in line.partition("|")[2])
    bad = next((row, line.index("b")) for row, line in enumerate(lines) if "b" in line.partition("|")[2])
    assert good[0] > bad[0] and good[1] < bad[1]
    assert lines[-1].split() == ["a", "good", "b", "bad"] and "8.40 MiB" in lines[0]


def test_marks_on_one_place_stand_side_by_side():
    lines = scatter.draw(document(one=(1.0, 1 << 20), two=(1.0, 1 << 20), three=(1.0, 1 << 20)))
    assert any("abc" in line for line in lines)


def test_nothing_to_draw():
    assert scatter.draw(document(one=(1.0, 1 << 20))) == []
    lost = document(one=(1.0, 1 << 20), two=(1.0, 1 << 20))
    lost["arms"]["two"]["failure"] = "crashed"
    assert scatter.draw(lost) == []


def test_a_curve_is_all_its_points():
    """An arm that was swept stands at each of its values, and not at the default alone."""
    swept = document(one=(1.0, 1 << 20), two=(2.0, 2 << 20))
    points = {"one": [(1, 8), (4, 4), (8, 1)], "two": [(8, 8)]}
    swept["curves"] = {name: {"points": [{"time": t, "memory": m << 20} for t, m in where]} for name, where in points.items()}
    lines = scatter.draw(swept)
    drawn = "".join(line.partition("|")[2] for line in lines)
    assert drawn.count("a") == 3 and drawn.count("b") == 1
    assert "8.40 MiB" in lines[0] and "973 KiB" in lines[8] and lines[10].split() == ["memory", "950", "ms", "CPU", "time", "8.40", "s"]
