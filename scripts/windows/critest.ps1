# critest against containerd with our runtimes.
param([Parameter(Mandatory)][string]$Output, [string]$Skip = '')
. (Join-Path $PSScriptRoot 'common.ps1')

$version = $Versions.critools
$tools = Join-Path $env:TEMP 'cri-tools'
New-Item -ItemType Directory -Force $tools, $Output | Out-Null
foreach ($tool in 'critest', 'crictl') {
    $name = "$tool-$version-windows-amd64.tar.gz"
    $release = "https://github.com/kubernetes-sigs/cri-tools/releases/download/$version/$name"
    Get-VerifiedFile -Uri $release -Hash "${release}.sha256" -Path (Join-Path $tools $name)
    Invoke-Program 'tar.exe' @('-xf', (Join-Path $tools $name), '-C', $tools)
}
$images = Join-Path $tools 'images.yaml'
@(
    'defaultTestContainerImage: registry.k8s.io/e2e-test-images/busybox:1.29-2'
    'webServerTestImage: registry.k8s.io/e2e-test-images/nginx:1.14-2'
) | Set-Content -Encoding Ascii $images
$endpoint = 'npipe://./pipe/containerd-containerd'
Invoke-Program (Join-Path $tools 'crictl.exe') @('--runtime-endpoint', $endpoint, 'info')
$arguments = @("--runtime-endpoint=$endpoint", "--test-images-file=$images", "--report-dir=$Output")
if ($Skip) {
    $arguments += "--ginkgo.skip=$Skip"
}
Invoke-Program (Join-Path $tools 'critest.exe') $arguments
