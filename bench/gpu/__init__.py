"""Proof on a GPU: the parts that no test without one can show. Run with `python -m bench.gpu`."""
