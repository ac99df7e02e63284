# Install the zip next to the running containerd, twice: the second time nothing may change.
param([Parameter(Mandatory)][string]$Zip)
. (Join-Path $PSScriptRoot 'common.ps1')

$unpacked = Join-Path $env:TEMP 'containerd-shim-runhcs'
Expand-Archive -Force $Zip $unpacked
$runhcs = Join-Path $unpacked 'runhcs.exe'

& $runhcs doctor
$report = (Invoke-Program $runhcs @('install', '--restart-containerd', '--config', $ContainerdConfig, '--json')) -join "`n" | ConvertFrom-Json
$report.actions | Format-Table
Wait-Condition { Test-Containerd } 'containerd answers after its restart'
$again = (Invoke-Program $runhcs @('install', '--restart-containerd', '--config', $ContainerdConfig, '--json')) -join "`n" | ConvertFrom-Json
if ($again.changed) {
    $again.actions | Format-Table
    throw 'the second `runhcs install` changed something'
}
Invoke-Program $report.shim @('-v')
Get-Acl $report.directory | Format-List 'Owner', 'AccessToString'
if ($env:GITHUB_ENV) {
    Add-Content $env:GITHUB_ENV "RUNHCS_SHIM=$($report.shim)"
}
