@rem kubectl runs this program to complete words behind "kubectl cascade".
@kubectl-cascade.exe __complete %*
