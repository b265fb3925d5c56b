"""Real workers on private servers, with faults: nothing may be lost, little doubled, all counted.

    make chaos                                    everything, on all four databases
    make chaos CHAOS_ARGS=--short                 each fault once, on one database each
    make chaos CHAOS_ARGS='--database mariadb -k sigkill'
    python -m chaos.report docs/reliability.md    the last table, between the markers of a page
    make soak                                     half an hour of load and churn: see chaos.soak

A scenario is a test: what happens, then `bed.audit(...)`: what must hold.
"""
