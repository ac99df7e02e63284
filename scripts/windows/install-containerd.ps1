# Install containerd and Microsoft's shim from containerd's release, and run containerd as a service with CRI.
. (Join-Path $PSScriptRoot 'common.ps1')

if ((Get-Service vmcompute -ErrorAction SilentlyContinue) -eq $null) {
    throw 'the Host Compute Service is missing: Install-WindowsFeature Containers, then restart'
}
if (Get-Service containerd -ErrorAction SilentlyContinue) {
    Stop-Service containerd
    if (Test-Path (Join-Path $ContainerdBin 'containerd.exe')) {
        Invoke-Program (Join-Path $ContainerdBin 'containerd.exe') @('--unregister-service')
    }
}

$version = $Versions.containerd
$name = "containerd-$version-windows-amd64.tar.gz"
$release = "https://github.com/containerd/containerd/releases/download/v$version/$name"
$archive = Join-Path $env:TEMP $name
Get-VerifiedFile -Uri $release -Hash "${release}.sha256sum" -Path $archive
New-Item -ItemType Directory -Force $ContainerdRoot | Out-Null
Invoke-Program 'tar.exe' @('-xf', $archive, '-C', $ContainerdRoot)

$containerd = Join-Path $ContainerdBin 'containerd.exe'
# Not by redirection: Windows PowerShell would write UTF-16, which containerd cannot read.
$config = (Invoke-Program $containerd @('config', 'default')) -join "`n"
[IO.File]::WriteAllText($ContainerdConfig, "$config`n")
Invoke-Program $containerd @('--register-service', '--config', $ContainerdConfig, '--log-file', (Join-Path $ContainerdRoot 'containerd.log'))
Start-Service containerd
Wait-Condition { Test-Containerd } 'containerd answers'
Invoke-Program $Ctr @('version')
