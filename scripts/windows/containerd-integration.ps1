# containerd's own integration suites, from a checkout of containerd, with our shim beside its containerd.exe.
# Needs Go, mingw and Git's bash, as containerd's own CI does.
param([Parameter(Mandatory)][string]$Source, [Parameter(Mandatory)][string]$Zip, [Parameter(Mandatory)][string]$Output)
. (Join-Path $PSScriptRoot 'common.ps1')

Stop-Service containerd -ErrorAction SilentlyContinue
New-Item -ItemType Directory -Force $Output | Out-Null
$Output = (Resolve-Path $Output).Path
$Zip = (Resolve-Path $Zip).Path
Set-Location $Source
$env:CGO_ENABLED = '1'
$bin = Join-Path (Get-Location) 'bin'
$env:PATH = "$bin;$env:PATH"
Invoke-Program 'mingw32-make.exe' @('binaries')
Expand-Archive -Force $Zip $bin
Install-CriTool 'crictl' $bin # the CRI suite runs it
Invoke-Program (Join-Path $bin 'containerd-shim-runhcs-v1.exe') @('-v')

$failed = @()
$env:EXTRA_TESTFLAGS = '-timeout=20m'
& mingw32-make.exe integration 2>&1 | Tee-Object (Join-Path $Output 'integration.log')
if ($LASTEXITCODE -ne 0) {
    $failed += 'integration'
}
$images = Join-Path $Output 'repolist.toml'
@(
    'busybox = "registry.k8s.io/e2e-test-images/busybox:1.29-2"'
    'ResourceConsumer = "registry.k8s.io/e2e-test-images/resource-consumer:1.10"'
) | Set-Content -Encoding Ascii $images
$env:TEST_IMAGE_LIST = $images
& mingw32-make.exe cri-integration 2>&1 | Tee-Object (Join-Path $Output 'cri-integration.log')
if ($LASTEXITCODE -ne 0) {
    $failed += 'cri-integration'
}
if ($failed) {
    throw "failed: $($failed -join ', ')"
}
