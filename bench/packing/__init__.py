"""How full placement policies get a cluster: the openb method of the FGD paper (USENIX ATC '23)."""
