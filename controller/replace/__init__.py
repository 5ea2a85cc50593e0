"""`replaceWaiting`: deletes pods that wait for their GPU while their share fits elsewhere."""
