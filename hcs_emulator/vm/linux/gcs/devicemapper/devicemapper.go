//go:build linux

// Package devicemapper takes the place of the agent's access to the device mapper, which the emulator's kernel may not
// have. The emulator gives every mapping of persistent memory a node of its own, /dev/pmem<device>-<offset>: the linear
// target of it is a link. There are no other targets.
package devicemapper

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// CreateFlags modify CreateDevice.
type CreateFlags int

// CreateReadOnly makes a device that is not writable.
const CreateReadOnly CreateFlags = 1

const (
	blockSize    = 512
	directory    = "/dev/mapper"
	linearTarget = "linear"
)

// Target is an entry of a device's table.
type Target struct {
	Type           string
	SectorStart    int64
	LengthInBlocks int64
	Params         string
}

// LinearTarget maps a part of a device.
func LinearTarget(sectorStart, lengthBlocks int64, path string, deviceStart int64) Target {
	return Target{linearTarget, sectorStart, lengthBlocks, fmt.Sprintf("%s %d", path, deviceStart)}
}

func zeroSectorLinearTarget(lengthBytes int64, path string, deviceStartBytes int64) Target {
	return LinearTarget(0, lengthBytes/blockSize, path, deviceStartBytes/blockSize)
}

// CreateDeviceWithRetryErrors creates a device. The node of a mapping is there before the agent is told of it.
func CreateDeviceWithRetryErrors(
	_ context.Context, name string, flags CreateFlags, targets []Target, _ ...error,
) (string, error) {
	return CreateDevice(name, flags, targets)
}

// CreateDevice returns the path of a new device.
func CreateDevice(name string, _ CreateFlags, targets []Target) (string, error) {
	if len(targets) != 1 || targets[0].Type != linearTarget || targets[0].SectorStart != 0 {
		return "", fmt.Errorf("the emulator's VM has no device mapper: only mappings of persistent memory exist")
	}
	var device string
	var start int64
	if _, err := fmt.Sscanf(targets[0].Params, "%s %d", &device, &start); err != nil {
		return "", err
	}
	node := fmt.Sprintf("%s-%d", device, start*blockSize)
	if err := unix.Access(node, unix.R_OK); err != nil {
		return "", &os.PathError{Op: "device-mapper table load", Path: node, Err: err}
	}
	path := filepath.Join(directory, name)
	if err := os.Symlink(node, path); err != nil {
		return "", fmt.Errorf("device-mapper device create: %w", err)
	}
	return path, nil
}

// RemoveDevice removes a device.
func RemoveDevice(name string) error {
	return os.Remove(filepath.Join(directory, name))
}
