# Uninstall the shim: containerd's configuration is as before, and no file is left.
param([Parameter(Mandatory)][string]$Zip)
. (Join-Path $PSScriptRoot 'common.ps1')

$unpacked = Join-Path $env:TEMP 'containerd-shim-runhcs'
Expand-Archive -Force $Zip $unpacked
$runhcs = Join-Path $unpacked 'runhcs.exe'
$report = (Invoke-Program $runhcs @('install', '--uninstall', '--restart-containerd', '--json')) -join "`n" | ConvertFrom-Json
$report.actions | Format-Table
if (Test-Path $report.directory) {
    throw "$($report.directory) was not removed"
}
$before = [IO.File]::ReadAllBytes("$ContainerdConfig.runhcs-backup")
if (Compare-Object $before ([IO.File]::ReadAllBytes($ContainerdConfig))) {
    throw 'the configuration of containerd differs from that before the installation'
}
