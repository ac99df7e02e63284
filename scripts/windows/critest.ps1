# critest against containerd with our runtimes.
param([Parameter(Mandatory)][string]$Output, [string]$Skip = '')
. (Join-Path $PSScriptRoot 'common.ps1')

$tools = Join-Path $env:TEMP 'cri-tools'
New-Item -ItemType Directory -Force $tools, $Output | Out-Null
Install-CriTool 'critest' $tools
Install-CriTool 'crictl' $tools
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
