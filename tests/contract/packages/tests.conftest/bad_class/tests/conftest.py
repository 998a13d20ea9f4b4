class Helper:
    pass
