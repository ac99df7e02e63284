//go:build linux

// Package vsock takes the place of linuxkit's package in a guest agent that runs in a VM of the HCS emulator. The VM has
// no AF_VSOCK: the agent asks the emulator for its connections, and gets them as descriptors of connected sockets.
package vsock

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"strings"
	"syscall"
	"time"
)

// CIDHost is the context id of the host.
const CIDHost = 2

// SocketVariable names the emulator's Unix socket in the environment.
const SocketVariable = "HCS_EMULATOR_VSOCK"

const timeout = 30 * time.Second

// Conn is what the agent needs of a connection.
type Conn interface {
	net.Conn
	CloseRead() error
	CloseWrite() error
	File() (*os.File, error)
}

// Dial connects to a port of the host.
func Dial(cid, port uint32) (Conn, error) {
	if cid != CIDHost {
		return nil, fmt.Errorf("vsock: the emulator has no context %d", cid)
	}
	file, err := Request(fmt.Sprintf("CONNECT %d", port))
	if err != nil {
		return nil, fmt.Errorf("vsock: port %d: %w", port, err)
	}
	defer file.Close()
	connection, err := net.FileConn(file)
	if err != nil {
		return nil, err
	}
	stream, ok := connection.(Conn)
	if !ok {
		connection.Close()
		return nil, fmt.Errorf("vsock: port %d: a %T cannot be half-closed", port, connection)
	}
	return stream, nil
}

// Request asks the emulator for a descriptor: a connection, or a share of the host.
func Request(line string) (*os.File, error) {
	link, err := net.Dial("unix", os.Getenv(SocketVariable))
	if err != nil {
		return nil, err
	}
	defer link.Close()
	if err := link.SetDeadline(time.Now().Add(timeout)); err != nil {
		return nil, err
	}
	if _, err := link.Write([]byte(line + "\n")); err != nil {
		return nil, err
	}
	data, control := make([]byte, 4096), make([]byte, syscall.CmsgSpace(4))
	size, controlSize, _, _, err := link.(*net.UnixConn).ReadMsgUnix(data, control)
	if err != nil {
		return nil, err
	}
	answer, _ := bufio.NewReader(strings.NewReader(string(data[:size]))).ReadString('\n')
	answer = strings.TrimSuffix(answer, "\n")
	if answer != "OK" {
		if strings.HasPrefix(answer, "ERROR ECONNREFUSED") {
			return nil, syscall.ECONNREFUSED
		}
		return nil, fmt.Errorf("%s", strings.TrimPrefix(answer, "ERROR "))
	}
	messages, err := syscall.ParseSocketControlMessage(control[:controlSize])
	if err != nil {
		return nil, err
	}
	for index := range messages {
		descriptors, err := syscall.ParseUnixRights(&messages[index])
		if err == nil && len(descriptors) == 1 {
			syscall.CloseOnExec(descriptors[0])
			return os.NewFile(uintptr(descriptors[0]), line), nil
		}
	}
	return nil, fmt.Errorf("the emulator sent no descriptor")
}
