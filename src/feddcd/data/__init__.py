"""Data sets, a strict LIBSVM reader, and ways to share rows among clients."""

from feddcd.data._dataset import DataError, Dataset
from feddcd.data.libsvm import read_libsvm
from feddcd.data.partition import PARTITIONS, partition
from feddcd.data.sources import available, load

__all__ = ["DataError", "Dataset", "PARTITIONS", "available", "load", "partition", "read_libsvm"]
