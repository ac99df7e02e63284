# What explains a failed job: logs, event log, configuration, processes. Nothing here fails the job.
param([Parameter(Mandatory)][string]$Output)
. (Join-Path $PSScriptRoot 'common.ps1')
$ErrorActionPreference = 'Continue'

New-Item -ItemType Directory -Force $Output | Out-Null
Copy-Item -ErrorAction SilentlyContinue (Join-Path $ContainerdRoot '*.toml'), (Join-Path $ContainerdRoot '*.log') $Output
Get-ComputerInfo | Out-File (Join-Path $Output 'computer.txt')
Get-CimInstance Win32_Process | Select-Object 'ProcessId', 'ParentProcessId', 'CommandLine' |
    Export-Csv -NoTypeInformation (Join-Path $Output 'processes.csv')
foreach ($log in 'Application', 'Microsoft-Windows-Hyper-V-Compute-Admin', 'Microsoft-Windows-Hyper-V-Compute-Operational') {
    $name = Join-Path $Output "$log.evtx"
    & wevtutil.exe export-log $log $name /overwrite:true
}
$runhcs = Join-Path $env:ProgramFiles 'containerd-shim-runhcs\runhcs.cmd'
if (Test-Path $runhcs) {
    & $runhcs ps --json | Out-File (Join-Path $Output 'ps.json')
    & $runhcs doctor --json | Out-File (Join-Path $Output 'doctor.json')
    & $runhcs gc | Out-File (Join-Path $Output 'gc.txt')
}
exit 0
