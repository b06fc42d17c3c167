REPORTS = {"tables": None, "sizes": None, "uci": None}
