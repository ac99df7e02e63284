package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"github.com/containerd/ttrpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

type checker struct {
	client *ttrpc.Client
	ctx    context.Context
}

func check(path string) error {
	conn, err := net.Dial("unix", path)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c := &checker{ttrpc.NewClient(conn), ctx}
	defer c.client.Close()
	out := json.NewEncoder(os.Stdout)
	for _, one := range []struct {
		name string
		run  func() error
	}{
		{"unary", c.unary},
		{"status codes", c.codes},
		{"unknown names", c.unknown},
		{"metadata", c.metadata},
		{"deadlines", c.deadlines},
		{"oversized request", c.oversizedRequest},
		{"server streaming", c.serverStreaming},
		{"client streaming", c.clientStreaming},
		{"bidirectional streaming", c.bidirectional},
		{"concurrent calls", c.concurrent},
		// Last, because Go's server closes the connection after it.
		{"oversized answer", c.oversizedAnswer},
		{"still alive", c.unary},
	} {
		problem := ""
		if err := one.run(); err != nil {
			problem = err.Error()
		}
		if err := out.Encode(map[string]string{"check": one.name, "problem": problem}); err != nil {
			return err
		}
	}
	return nil
}

func (c *checker) echo(method string, data []byte) error {
	var answer wrapperspb.BytesValue
	if err := c.client.Call(c.ctx, service, method, wrapperspb.Bytes(data), &answer); err != nil {
		return fmt.Errorf("%s of %d bytes: %w", method, len(data), err)
	}
	if !bytes.Equal(answer.Value, data) {
		return fmt.Errorf("%s of %d bytes gave %d bytes", method, len(data), len(answer.Value))
	}
	return nil
}

func (c *checker) unary() error {
	for _, method := range []string{"Echo", "EchoLater"} {
		for _, size := range []int{0, 1, 127, 128, 1 << 16, 4<<20 - 200} {
			if err := c.echo(method, bytes.Repeat([]byte{7}, size)); err != nil {
				return err
			}
		}
	}
	return nil
}

func want(err error, code codes.Code, message string) error {
	got := status.Convert(err)
	if got.Code() != code || (message != "" && got.Message() != message) {
		return fmt.Errorf("want %v %q, got %v", code, message, err)
	}
	return nil
}

func (c *checker) codes() error {
	var answer wrapperspb.BytesValue
	for code := codes.Canceled; code <= codes.Unauthenticated; code++ {
		err := c.client.Call(c.ctx, service, "Fail", wrapperspb.Int64(int64(code)), &answer)
		if err := want(err, code, fmt.Sprintf("code %d", code)); err != nil {
			return err
		}
	}
	return want(c.client.Call(c.ctx, service, "Crash", wrapperspb.Bytes(nil), &answer), codes.Unknown, "out of luck")
}

func (c *checker) unknown() error {
	var answer wrapperspb.BytesValue
	err := c.client.Call(c.ctx, "no.Service", "Echo", wrapperspb.Bytes(nil), &answer)
	if err := want(err, codes.Unimplemented, "service no.Service"); err != nil {
		return err
	}
	err = c.client.Call(c.ctx, service, "NoMethod", wrapperspb.Bytes(nil), &answer)
	return want(err, codes.Unimplemented, "method NoMethod")
}

func (c *checker) metadata() error {
	var answer wrapperspb.StringValue
	ctx := ttrpc.WithMetadata(c.ctx, ttrpc.MD{"containerd-namespace-ttrpc": {"k8s.io"}, "other": {"x", "y"}})
	if err := c.client.Call(ctx, service, "Meta", wrapperspb.String("containerd-namespace-ttrpc"), &answer); err != nil {
		return err
	}
	if answer.Value != "k8s.io" {
		return fmt.Errorf("namespace arrived as %q", answer.Value)
	}
	return nil
}

func (c *checker) deadlines() error {
	var nothing wrapperspb.BytesValue
	ctx, cancel := context.WithTimeout(c.ctx, 30*time.Millisecond)
	defer cancel()
	err := c.client.Call(ctx, service, "Wait", wrapperspb.Bytes(nil), &nothing)
	if !errors.Is(err, context.DeadlineExceeded) && status.Code(err) != codes.DeadlineExceeded {
		return fmt.Errorf("a call without a response returned %v", err)
	}
	var left wrapperspb.Int64Value
	ctx, cancel = context.WithTimeout(c.ctx, 40*time.Second)
	defer cancel()
	if err := c.client.Call(ctx, service, "Left", wrapperspb.Bytes(nil), &left); err != nil {
		return err
	}
	if left.Value <= int64(time.Second) || left.Value > int64(40*time.Second) {
		return fmt.Errorf("of 40 s the server saw %v", time.Duration(left.Value))
	}
	return nil
}

func (c *checker) oversizedAnswer() error {
	var answer wrapperspb.BytesValue
	err := c.client.Call(c.ctx, service, "Blob", wrapperspb.Int64(5<<20), &answer)
	return want(err, codes.ResourceExhausted, "")
}

// oversizedRequest is refused by Go's client; the response of a server to such a frame is tested in Python.
func (c *checker) oversizedRequest() error {
	var answer wrapperspb.BytesValue
	err := c.client.Call(c.ctx, service, "Echo", wrapperspb.Bytes(make([]byte, 5<<20)), &answer)
	return want(err, codes.ResourceExhausted, "")
}

func (c *checker) open(method string, client, server bool, first any) (ttrpc.ClientStream, error) {
	desc := &ttrpc.StreamDesc{StreamingClient: client, StreamingServer: server}
	return c.client.NewStream(c.ctx, desc, service, method, first)
}

func (c *checker) serverStreaming() error {
	for _, many := range []int64{0, 1, 500, 13} {
		s, err := c.open("Count", false, true, wrapperspb.Int64(many))
		if err != nil {
			return err
		}
		for i := int64(0); i < many; i++ {
			var n wrapperspb.Int64Value
			if err := s.RecvMsg(&n); err != nil {
				return fmt.Errorf("message %d of %d: %w", i, many, err)
			}
			if n.Value != i {
				return fmt.Errorf("message %d of %d is %d", i, many, n.Value)
			}
		}
		var n wrapperspb.Int64Value
		err = s.RecvMsg(&n)
		if many == 13 {
			if err := want(err, codes.FailedPrecondition, "thirteen"); err != nil {
				return err
			}
		} else if err != io.EOF {
			return fmt.Errorf("after %d messages: %v instead of EOF", many, err)
		}
	}
	return nil
}

func (c *checker) clientStreaming() error {
	s, err := c.open("Sum", true, false, nil)
	if err != nil {
		return err
	}
	for i := int64(1); i <= 1000; i++ {
		if err := s.SendMsg(wrapperspb.Int64(i)); err != nil {
			return err
		}
	}
	if err := s.CloseSend(); err != nil {
		return err
	}
	var sum wrapperspb.Int64Value
	if err := s.RecvMsg(&sum); err != nil {
		return err
	}
	if sum.Value != 500500 {
		return fmt.Errorf("the sum is %d", sum.Value)
	}
	return nil
}

func (c *checker) bidirectional() error {
	s, err := c.open("Bidi", true, true, nil)
	if err != nil {
		return err
	}
	for i := 0; i < 300; i++ {
		data := bytes.Repeat([]byte{byte(i)}, i)
		if err := s.SendMsg(wrapperspb.Bytes(data)); err != nil {
			return err
		}
		var back wrapperspb.BytesValue
		if err := s.RecvMsg(&back); err != nil {
			return err
		}
		if !bytes.Equal(back.Value, data) {
			return fmt.Errorf("message %d came back changed", i)
		}
	}
	if err := s.CloseSend(); err != nil {
		return err
	}
	var none wrapperspb.BytesValue
	if err := s.RecvMsg(&none); err != io.EOF {
		return fmt.Errorf("after the end: %v instead of EOF", err)
	}
	return nil
}

func (c *checker) concurrent() error {
	const many = 1000
	problems := make(chan error, many)
	var started, all sync.WaitGroup
	started.Add(many)
	for i := 0; i < many; i++ {
		all.Add(1)
		go func() {
			defer all.Done()
			started.Done()
			started.Wait()
			method := "Echo"
			if i%2 == 1 {
				method = "EchoLater"
			}
			if err := c.echo(method, []byte(fmt.Sprintf("call %d", i))); err != nil {
				problems <- err
			}
		}()
	}
	all.Wait()
	close(problems)
	return <-problems
}
