# `runhcs selftest` of the installed shim next to Microsoft's. The recordings improve the emulator and the parity cases.
param([Parameter(Mandatory)][string]$Output, [string]$Against = '')
. (Join-Path $PSScriptRoot 'common.ps1')

New-Item -ItemType Directory -Force $Output | Out-Null
$Output = (Resolve-Path $Output).Path
if (-not $Against) {
    $Against = $MicrosoftShim
}
$runhcs = Join-Path $env:ProgramFiles 'containerd-shim-runhcs\runhcs.cmd'
$report = Join-Path $Output 'selftest.json'
& $runhcs selftest --json --record (Join-Path $Output 'recordings') --against $Against > $report
$code = $LASTEXITCODE
Get-Content $report
if ($code -ne 0) {
    throw "runhcs selftest failed with exit code $code"
}
