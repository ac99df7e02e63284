"""Run a small Kubernetes cluster on this machine, with this shim on the HCS emulator.

  python -m deploy.cluster up                      start it; takes about half a minute
  python -m deploy.cluster kubectl get pods -A     run kubectl in the cluster's network
  python -m deploy.cluster load IMAGE.tar          import an image into the node's containerd
  python -m deploy.cluster status                  its programs and their logs
  python -m deploy.cluster kubeconfig              the path of the administrator's kubeconfig
  python -m deploy.cluster down                    stop it, and remove everything

The cluster has one node, and no registry, DNS or kube-proxy: pods use images that were loaded (localhost/busybox:1
is), reach each other by address, and the API server at its Service address. Its network namespace is not connected to
other networks. Clients run in it: by `kubectl` above, or by `nsenter --net=/run/netns/NAME` (`status` shows it).
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

from deploy.cluster import control_plane, network
from deploy.cluster.cluster import Cluster, read
from deploy.cluster.settings import DEFAULT_DIRECTORY, DEFAULT_RUNTIME, ClusterError, Settings


def main(arguments: list[str] | None = None) -> int:
    args = _parser().parse_args(arguments)
    try:
        return int(args.function(args))
    except ClusterError as error:
        print(f"cluster: {error}", file=sys.stderr)
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m deploy.cluster", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--directory", type=Path, default=DEFAULT_DIRECTORY, help="the cluster's files (default: %(default)s)"
    )
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    up = commands.add_parser("up", help="start a cluster")
    up.add_argument("--runtime", default=DEFAULT_RUNTIME, help="of pods without a RuntimeClass (default: %(default)s)")
    up.add_argument("--no-shim", action="store_true", help="only runc: for installing the shim by other means")
    up.add_argument("--guest", choices=("emulated", "gcs"), default="emulated", help="the agent of Linux VMs")
    up.set_defaults(function=_up)
    for name, function, text in (
        ("down", _down, "stop the cluster and remove its files"),
        ("status", _status, "show the programs of the cluster"),
        ("kubeconfig", _kubeconfig, "print the path of the administrator's kubeconfig"),
    ):
        commands.add_parser(name, help=text).set_defaults(function=function)
    load = commands.add_parser("load", help="import images from archives (OCI or Docker)")
    load.add_argument("archives", nargs="+", type=Path, metavar="FILE")
    load.set_defaults(function=_load)
    kubectl = commands.add_parser("kubectl", help="run kubectl in the cluster's network")
    kubectl.add_argument("arguments", nargs=argparse.REMAINDER, metavar="ARGUMENT")
    kubectl.set_defaults(function=_kubectl)
    return parser


def _up(args: argparse.Namespace) -> int:
    settings = Settings(
        directory=args.directory.absolute(),
        runtime="runc" if args.no_shim else args.runtime,
        with_shim=not args.no_shim,
        guest=args.guest,
    )
    cluster = Cluster(settings)
    try:
        cluster.up()
    except BaseException:
        if (settings.directory / "cluster.json").exists() and not cluster.kubelet.pid:
            print(f"cluster: the start failed; logs are in {settings.logs}; remove it with `down`", file=sys.stderr)
        raise
    if settings.with_shim:
        cluster.apply_runtime_classes()
    print(f"the cluster is ready; its files are in {settings.directory}")
    return 0


def _down(args: argparse.Namespace) -> int:
    left = read(args.directory).down()
    for problem in left:
        print(f"cluster: pods had left: {problem}", file=sys.stderr)
    return 1 if left else 0


def _status(args: argparse.Namespace) -> int:
    cluster = read(args.directory)
    settings = cluster.settings
    daemons = [cluster.emulator, cluster.containerd, *control_plane.daemons(settings), cluster.kubelet]
    for daemon in daemons:
        state = f"pid {daemon.pid}" if daemon.pid else "not running"
        print(f"{daemon.name:<24} {state:<16} {daemon.log}")
    print(f"{'network namespace':<24} {network.path(settings)}")
    return 0 if all(daemon.pid for daemon in daemons) else 1


def _kubeconfig(args: argparse.Namespace) -> int:
    print(read(args.directory).settings.kubeconfig)
    return 0


def _load(args: argparse.Namespace) -> int:
    cluster = read(args.directory)
    for archive in args.archives:
        cluster.containerd.load(archive)
    return 0


def _kubectl(args: argparse.Namespace) -> int:
    settings = read(args.directory).settings
    return subprocess.call(control_plane.kubectl_command(settings, *args.arguments), env=os.environ)


if __name__ == "__main__":
    sys.exit(main())
