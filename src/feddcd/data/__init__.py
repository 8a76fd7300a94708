"""Data sets, strict readers of files, ways to share rows among clients, and what sites agree on."""

from feddcd.data._dataset import Dataset
from feddcd.data.agreement import Agreed, Offer, SiteData, admit, agree, offer, select
from feddcd.data.libsvm import read_libsvm
from feddcd.data.partition import PARTITIONS, partition
from feddcd.data.sources import available, load
from feddcd.data.tables import read_site

from .._errors import DataError

__all__ = [
    "Agreed",
    "DataError",
    "Dataset",
    "Offer",
    "PARTITIONS",
    "SiteData",
    "admit",
    "agree",
    "available",
    "load",
    "offer",
    "partition",
    "read_libsvm",
    "read_site",
    "select",
]
