# Install the nat plugin of CNI, for critest and containerd's CRI tests.
. (Join-Path $PSScriptRoot 'common.ps1')

$version = $Versions.cni
$name = "windows-container-networking-cni-amd64-$version.zip"
$archive = Join-Path $env:TEMP $name
$release = "https://github.com/microsoft/windows-container-networking/releases/download/$version/$name"
Invoke-WebRequest -UseBasicParsing -Uri $release -OutFile $archive
Write-Host "$name has SHA-256 $((Get-FileHash -Algorithm SHA256 $archive).Hash)"
$bin = Join-Path $ContainerdRoot 'cni\bin'
$conf = Join-Path $ContainerdRoot 'cni\conf'
New-Item -ItemType Directory -Force $bin, $conf | Out-Null
Expand-Archive -Force $archive $bin

$nat = Get-HnsNetwork | Where-Object { $_.Name -eq 'nat' }
if (-not $nat) {
    throw 'the network nat is missing: Docker creates it, or create a network of the type nat with this name'
}
$subnet = @($nat.Subnets)[0]
$network = @{
    cniVersion   = '1.0.0'
    name         = 'nat'
    type         = 'nat'
    master       = 'Ethernet'
    ipam         = @{
        subnet = $subnet.AddressPrefix
        routes = @(@{ gateway = $subnet.GatewayAddress })
    }
    capabilities = @{ portMappings = $true; dns = $true }
}
[IO.File]::WriteAllText((Join-Path $conf '0-containerd-nat.conf'), (ConvertTo-Json -Depth 5 $network))
