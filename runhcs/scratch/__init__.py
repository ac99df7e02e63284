"""`runhcs create-scratch`: the scratch disks of Linux containers."""
