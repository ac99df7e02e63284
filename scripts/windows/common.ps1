# Functions of the scripts in this directory. They run on Windows PowerShell 5.1 and on PowerShell 7:
#   . (Join-Path $PSScriptRoot 'common.ps1')
Set-StrictMode -Version Latest
$ErrorActionPreference = 'Stop'
$ProgressPreference = 'SilentlyContinue'
[Net.ServicePointManager]::SecurityProtocol = [Net.SecurityProtocolType]::Tls12

$Versions = Get-Content -Raw (Join-Path $PSScriptRoot 'versions.json') | ConvertFrom-Json
$ContainerdRoot = Join-Path $env:ProgramFiles 'containerd'
$ContainerdBin = Join-Path $ContainerdRoot 'bin'
$ContainerdConfig = Join-Path $ContainerdRoot 'config.toml'
$Ctr = Join-Path $ContainerdBin 'ctr.exe'
$MicrosoftShim = Join-Path $ContainerdBin 'containerd-shim-runhcs-v1.exe'

# Run a program; its exit code must be 0. Its output is that of the function.
function Invoke-Program {
    param([Parameter(Mandatory)][string]$Program, [string[]]$Arguments = @())
    & $Program @Arguments
    if ($LASTEXITCODE -ne 0) {
        throw "$Program $($Arguments -join ' ') failed with exit code $LASTEXITCODE"
    }
}

# Poll until the condition holds.
function Wait-Condition {
    param([Parameter(Mandatory)][scriptblock]$Condition, [Parameter(Mandatory)][string]$What, [int]$Seconds = 60)
    $deadline = (Get-Date).AddSeconds($Seconds)
    while (-not (& $Condition)) {
        if ((Get-Date) -gt $deadline) {
            throw "timeout after $Seconds s: $What"
        }
        Start-Sleep -Milliseconds 500
    }
}

# Download a file and compare its SHA-256 with the expected one: 64 digits, or the address of a file that begins with them.
function Get-VerifiedFile {
    param([Parameter(Mandatory)][string]$Uri, [Parameter(Mandatory)][string]$Hash, [Parameter(Mandatory)][string]$Path)
    Invoke-WebRequest -UseBasicParsing -Uri $Uri -OutFile $Path
    if ($Hash -like 'https:*') {
        $answer = (Invoke-WebRequest -UseBasicParsing -Uri $Hash).Content
        if ($answer -is [byte[]]) {
            $answer = [Text.Encoding]::ASCII.GetString($answer)
        }
        $Hash = $answer.Trim().Substring(0, 64)
    }
    $found = (Get-FileHash -Algorithm SHA256 $Path).Hash
    if ($found -ne $Hash) {
        throw "$Uri has SHA-256 $found instead of $Hash"
    }
}

# Download critest or crictl of cri-tools' release into a directory.
function Install-CriTool {
    param([Parameter(Mandatory)][string]$Tool, [Parameter(Mandatory)][string]$Directory)
    $name = "$Tool-$($Versions.critools)-windows-amd64.tar.gz"
    $release = "https://github.com/kubernetes-sigs/cri-tools/releases/download/$($Versions.critools)/$name"
    $archive = Join-Path $env:TEMP $name
    Get-VerifiedFile -Uri $release -Hash "${release}.sha256" -Path $archive
    Invoke-Program 'tar.exe' @('-xf', $archive, '-C', $Directory)
}

# The tag of Microsoft's images for the build of this node.
function Get-ImageTag {
    $build = [Environment]::OSVersion.Version.Build
    if ($build -ge 26100) { return 'ltsc2025' }
    if ($build -ge 20348) { return 'ltsc2022' }
    return 'ltsc2019'
}

function Test-Containerd {
    & $Ctr version *> $null
    return $LASTEXITCODE -eq 0
}

# Processes of shims, ours and Microsoft's.
function Get-Shim {
    Get-Process -Name 'containerd-shim-runhcs-v1' -ErrorAction SilentlyContinue
}
