"""Benchmarks: `python -m bench` runs all, `python -m bench.<name>` one. Each writes bench/results/<name>.json."""
