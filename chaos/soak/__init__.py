"""The soak: half an hour of steady load and churn, and whether anything grows.

    make soak                                                   a million tasks on each of two
    make soak SOAK_ARGS='--minutes 0.5 --tasks 10000 --seed 5'  to try it; too short for a verdict
    python -m chaos.soak.report docs/reliability.md             the last figures into a page

`watch` says what is looked at, `run` what happens, `verdict` what counts as flat.
"""
