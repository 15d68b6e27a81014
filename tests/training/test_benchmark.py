"""The benchmark of the loop still runs. No time is looked at."""

from benchmarks import training_loop


def test_a_short_run_prints_the_ratio(capsys):
    training_loop.main(["--steps", "2", "--batch", "4", "--rounds", "2"])
    printed = capsys.readouterr().out
    assert "loop / bare step" in printed
    assert "of 2 rounds" in printed
