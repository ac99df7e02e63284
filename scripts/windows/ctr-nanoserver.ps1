# Containers of nanoserver with ctr: output, exit code, exec, kill, and nothing left.
param([string]$Shim = $env:RUNHCS_SHIM, [ValidateSet('process', 'hypervisor')][string]$Isolation = 'process')
. (Join-Path $PSScriptRoot 'common.ps1')

$image = "mcr.microsoft.com/windows/nanoserver:$(Get-ImageTag)"
Invoke-Program $Ctr @('images', 'pull', $image) | Out-Null
$run = @('run', '--runtime', $Shim)
if ($Isolation -eq 'hypervisor') {
    $run += '--isolated'
}
$before = @(Get-Shim).Count

$output = (Invoke-Program $Ctr ($run + @('--rm', $image, 'ci-echo', 'cmd', '/c', 'echo hello'))) -join "`n"
if ($output -notmatch 'hello') {
    throw "unexpected output: $output"
}

& $Ctr @($run + @('--rm', $image, 'ci-exit', 'cmd', '/c', 'exit 7'))
if ($LASTEXITCODE -ne 7) {
    throw "exit code $LASTEXITCODE instead of 7"
}

Invoke-Program $Ctr ($run + @('--detach', $image, 'ci-long', 'ping', '-t', '127.0.0.1'))
try {
    $output = (Invoke-Program $Ctr @('task', 'exec', '--exec-id', 'one', 'ci-long', 'cmd', '/c', 'echo from exec')) -join "`n"
    if ($output -notmatch 'from exec') {
        throw "unexpected output of exec: $output"
    }
    Invoke-Program $Ctr @('task', 'metrics', 'ci-long') | Out-Null
} finally {
    & $Ctr task kill --signal SIGKILL ci-long
    Wait-Condition { (& $Ctr task ls) -match 'ci-long.*STOPPED' } 'ci-long is stopped'
    & $Ctr task rm ci-long
    Invoke-Program $Ctr @('container', 'rm', 'ci-long')
}
Wait-Condition { @(Get-Shim).Count -le $before } 'the shims exit'
