package main

import (
	"context"
	"encoding/json"
	"net"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/containerd/ttrpc"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// bench measures unary calls like those of containerd: a short message, and the namespace as metadata. The request has
// the value as field 1, like every request of the task API that names a task.
func bench(path string, callers, calls int, service, method, value string) error {
	conn, err := net.Dial("unix", path)
	if err != nil {
		return err
	}
	client := ttrpc.NewClient(conn)
	defer client.Close()
	ctx := ttrpc.WithMetadata(context.Background(), ttrpc.MD{"containerd-namespace-ttrpc": {"default"}})
	request := wrapperspb.Bytes([]byte(value))
	each := calls / callers
	times := make([][]time.Duration, callers)
	failed := make(chan error, callers)
	var all sync.WaitGroup
	begin := time.Now()
	for caller := range times {
		all.Add(1)
		go func() {
			defer all.Done()
			for range each {
				var answer wrapperspb.BytesValue
				start := time.Now()
				if err := client.Call(ctx, service, method, request, &answer); err != nil {
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
