"""`replaceWaiting`: deletes pods that wait on their GPU while their share fits elsewhere."""
