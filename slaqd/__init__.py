"""Gives a cluster's CPUs to the training jobs that will learn most from them."""

from importlib.metadata import version

__version__ = version("slaqd")
