"""Guest code: runs inside a cell, standard library only. The host imports `wire` and `codec` and nothing else of it."""
