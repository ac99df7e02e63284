package main

import (
	"io"
	"os"
)

// pump copies stdin to stdout as Go's shims copy a container's output: through a buffer of 32 KiB. The struct types hide
// what io.Copy would otherwise use to let the kernel do the work.
func pump() error {
	_, err := io.CopyBuffer(struct{ io.Writer }{os.Stdout}, struct{ io.Reader }{os.Stdin}, make([]byte, 32<<10))
	return err
}
