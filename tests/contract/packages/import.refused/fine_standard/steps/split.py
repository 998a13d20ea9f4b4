import collections.abc
import urllib.parse
from collections import abc
from urllib import parse

import tomllib as toml


def words(text):
    if not text.strip():
        raise ValueError("the text is empty")
    return text.split()
