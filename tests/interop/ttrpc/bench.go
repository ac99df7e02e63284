package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/containerd/ttrpc"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// bench measures unary calls like those of containerd: a short message, and the namespace as metadata. The request has
// the value as field 1, like every request of the task API that names a task.
func bench(path string, callers, calls int, service, method, value string) error {
	return benchMany(callers, calls, service, method, []string{path + "=" + value})
}

// benchMany is bench with several servers, each given as SOCKET=VALUE, and a connection to each of them, as containerd
// has one to each shim. Every caller calls all of them in turn, and begins with another one.
func benchMany(callers, calls int, service, method string, targets []string) error {
	clients := make([]*ttrpc.Client, len(targets))
	requests := make([]*wrapperspb.BytesValue, len(targets))
	for number, target := range targets {
		path, value, found := strings.Cut(target, "=")
		if !found {
			return fmt.Errorf("%q: give SOCKET=VALUE", target)
		}
		conn, err := net.Dial("unix", path)
		if err != nil {
			return err
		}
		clients[number] = ttrpc.NewClient(conn)
		defer clients[number].Close()
		requests[number] = wrapperspb.Bytes([]byte(value))
	}
	ctx := ttrpc.WithMetadata(context.Background(), ttrpc.MD{"containerd-namespace-ttrpc": {"default"}})
	each := calls / callers
	times := make([][]time.Duration, callers)
	failed := make(chan error, callers)
	var all sync.WaitGroup
	begin := time.Now()
	for caller := range times {
		all.Add(1)
		go func() {
			defer all.Done()
			for number := range each {
				place := (caller*len(targets)/callers + number) % len(targets)
				var answer wrapperspb.BytesValue
				start := time.Now()
				if err := clients[place].Call(ctx, service, method, requests[place], &answer); err != nil {
					failed <- err
					return
				}
				times[caller] = append(times[caller], time.Since(start))
			}
		}()
	}
	all.Wait()
	took := time.Since(begin)
	select {
	case err := <-failed:
		return err
	default:
	}
	together := slices.Concat(times...)
	slices.Sort(together)
	return json.NewEncoder(os.Stdout).Encode(map[string]float64{
		"rate":   float64(len(together)) / took.Seconds(),
		"p50_us": float64(together[len(together)/2].Nanoseconds()) / 1e3,
		"p99_us": float64(together[len(together)*99/100].Nanoseconds()) / 1e3,
	})
}
