"""Optimizers that torch does not have as one."""

from zoo.optim.muon import MuonAdamW

__all__ = ["MuonAdamW"]
