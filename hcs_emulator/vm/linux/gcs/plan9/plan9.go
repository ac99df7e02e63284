//go:build linux

// Package plan9 takes the place of the agent's package: the emulator's kernel may have no 9p. A share of the host is a
// descriptor of a detached mount, which is attached at the target. A share of single files consists of several mounts,
// which the agent could not unmount at once: it is attached elsewhere, and the target gets links to its files.
package plan9

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"github.com/Microsoft/hcsshim/internal/guest/transport"
	"github.com/linuxkit/virtsock/pkg/vsock"
	"golang.org/x/sys/unix"
)

// The port of the host's Plan9 server.
const serverPort = 564

// Where shares of single files are attached.
const hiddenRoot = "/run/plan9"

var (
	hiddenLock sync.Mutex
	// Attached share of single files to its target.
	hidden = map[string]string{}
)

// Mount attaches a share at the target, which is created, and removed again if that fails.
func Mount(_ context.Context, _ transport.Transport, target, share string, port uint32, readonly bool) (err error) {
	if port != serverPort {
		return fmt.Errorf("could not connect to plan9 server for %s: nothing listens on port %d", target, port)
	}
	if err := os.MkdirAll(target, 0700); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.RemoveAll(target)
		}
	}()
	tree, err := vsock.Request("PLAN9 " + share)
	if err != nil {
		return fmt.Errorf("failed to mount directory for mapped directory %s: %w", target, err)
	}
	defer tree.Close()
	descriptor := int(tree.Fd())
	if readonly {
		attributes := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}
		flags := uint(unix.AT_EMPTY_PATH | unix.AT_RECURSIVE)
		if err := unix.MountSetattr(descriptor, "", flags, &attributes); err != nil {
			return fmt.Errorf("failed to make the share of %s read-only: %w", target, err)
		}
	}
	files, err := singleFiles(descriptor)
	if err == nil && files != nil {
		err = linkFiles(descriptor, target, share, files)
	} else if err == nil {
		err = attach(descriptor, target)
	}
	if err != nil {
		return fmt.Errorf("failed to mount directory for mapped directory %s: %w", target, err)
	}
	return nil
}

func attach(descriptor int, target string) error {
	return unix.MoveMount(descriptor, "", unix.AT_FDCWD, target, unix.MOVE_MOUNT_F_EMPTY_PATH)
}

// singleFiles returns the names in a share of single files, each of which is a mount; nil for any other share.
func singleFiles(descriptor int) ([]string, error) {
	root := fmt.Sprintf("/proc/self/fd/%d", descriptor)
	var of unix.Stat_t
	if err := unix.Stat(root, &of); err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(root + "/.")
	if err != nil {
		return nil, nil
	}
	var names []string
	for _, entry := range entries {
		var file unix.Stat_t
		err := unix.Lstat(filepath.Join(root, entry.Name()), &file)
		if err != nil || file.Dev == of.Dev || file.Mode&unix.S_IFMT == unix.S_IFDIR {
			return nil, nil
		}
		names = append(names, entry.Name())
	}
	return names, nil
}

func linkFiles(descriptor int, target, share string, names []string) error {
	hiddenLock.Lock()
	defer hiddenLock.Unlock()
	detachUnused()
	place := filepath.Join(hiddenRoot, share)
	if err := os.MkdirAll(place, 0700); err != nil {
		return err
	}
	if err := attach(descriptor, place); err != nil {
		return err
	}
	hidden[place] = target
	if err := unix.Mount("share", target, "tmpfs", 0, "mode=755"); err != nil {
		return err
	}
	for _, name := range names {
		if err := os.Symlink(filepath.Join(place, name), filepath.Join(target, name)); err != nil {
			return err
		}
	}
	return nil
}

// detachUnused detaches shares whose targets the agent has unmounted.
func detachUnused() {
	for place, target := range hidden {
		links, _ := os.ReadDir(target)
		if len(links) == 0 {
			_ = unix.Unmount(place, unix.MNT_DETACH)
			_ = os.Remove(place)
			delete(hidden, place)
		}
	}
}
