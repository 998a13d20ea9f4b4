from .workflow import *
