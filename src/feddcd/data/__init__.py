"""Data sets, strict readers of files, ways to share rows among clients, and what sites agree on."""

from .._errors import DataError
from ._dataset import Dataset
from .agreement import Agreed, Offer, SiteData, admit, agree, offer, select
from .libsvm import read_libsvm
from .partition import PARTITIONS, partition
from .sources import available, load
from .tables import read_site

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
