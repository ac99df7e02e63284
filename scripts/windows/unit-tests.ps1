# Unit tests with CPython for Windows, except those in unit-tests-excluded.txt.
param([string]$Python = 'python', [string]$Report = 'unit-tests.xml')
. (Join-Path $PSScriptRoot 'common.ps1')

$root = (Resolve-Path (Join-Path $PSScriptRoot '..\..')).Path
Set-Location $root
$environment = Join-Path $root '.venv-windows'
Invoke-Program $Python @('-m', 'venv', $environment)
$interpreter = Join-Path $environment 'Scripts\python.exe'
Invoke-Program $interpreter @('-m', 'pip', 'install', '--quiet', '--require-hashes', '-r', 'requirements\windows.lock')
$excluded = Get-Content (Join-Path $PSScriptRoot 'unit-tests-excluded.txt') | Where-Object { -not $_.StartsWith('#') } | ForEach-Object {
    if ($_.Contains('::')) { "--deselect=$_" } else { "--ignore=$_" }
}
Invoke-Program $interpreter (@('-X', 'utf8', '-m', 'pytest', 'tests/unit', '-q', "--junitxml=$Report") + $excluded)
