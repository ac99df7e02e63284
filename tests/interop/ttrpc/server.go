package main

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"time"

	"github.com/containerd/ttrpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

const service = "interop.Service"

// unary makes a ttrpc method of a function from one message to another.
func unary[Q any, PQ interface {
	*Q
	proto.Message
}](f func(context.Context, PQ) (proto.Message, error)) ttrpc.Method {
	return func(ctx context.Context, unmarshal func(any) error) (any, error) {
		request := PQ(new(Q))
		if err := unmarshal(request); err != nil {
			return nil, err
		}
		return f(ctx, request)
	}
}

func description() *ttrpc.ServiceDesc {
	return &ttrpc.ServiceDesc{
		Methods: map[string]ttrpc.Method{
			"Echo": unary(func(_ context.Context, m *wrapperspb.BytesValue) (proto.Message, error) { return m, nil }),
			"EchoLater": unary(func(_ context.Context, m *wrapperspb.BytesValue) (proto.Message, error) {
				time.Sleep(time.Millisecond)
				return m, nil
			}),
			"Fail": unary(func(_ context.Context, m *wrapperspb.Int64Value) (proto.Message, error) {
				return nil, status.Errorf(codes.Code(m.Value), "code %d", m.Value)
			}),
			"Crash": unary(func(context.Context, *wrapperspb.BytesValue) (proto.Message, error) {
				return nil, errors.New("out of luck")
			}),
			"Wait": unary(func(ctx context.Context, m *wrapperspb.BytesValue) (proto.Message, error) {
				<-ctx.Done()
				return nil, ctx.Err()
			}),
			"Blob": unary(func(_ context.Context, m *wrapperspb.Int64Value) (proto.Message, error) {
				return wrapperspb.Bytes(make([]byte, m.Value)), nil
			}),
			"Meta": unary(func(ctx context.Context, m *wrapperspb.StringValue) (proto.Message, error) {
				value, _ := ttrpc.GetMetadataValue(ctx, m.Value)
				return wrapperspb.String(value), nil
			}),
			"Left": unary(func(ctx context.Context, m *wrapperspb.BytesValue) (proto.Message, error) {
				deadline, ok := ctx.Deadline()
				if !ok {
					return wrapperspb.Int64(0), nil
				}
				return wrapperspb.Int64(int64(time.Until(deadline))), nil
			}),
		},
		Streams: map[string]ttrpc.Stream{
			"Count": {StreamingServer: true, Handler: func(_ context.Context, s ttrpc.StreamServer) (any, error) {
				var n wrapperspb.Int64Value
				if err := s.RecvMsg(&n); err != nil {
					return nil, err
				}
				for i := int64(0); i < n.Value; i++ {
					if err := s.SendMsg(wrapperspb.Int64(i)); err != nil {
						return nil, err
					}
				}
				if n.Value == 13 {
					return nil, status.Error(codes.FailedPrecondition, "thirteen")
				}
				return nil, nil
			}},
			"Sum": {StreamingClient: true, Handler: func(_ context.Context, s ttrpc.StreamServer) (any, error) {
				var sum int64
				for {
					var n wrapperspb.Int64Value
					if err := s.RecvMsg(&n); err == io.EOF {
						return wrapperspb.Int64(sum), nil
					} else if err != nil {
						return nil, err
					}
					sum += n.Value
				}
			}},
			"Bidi": {StreamingClient: true, StreamingServer: true,
				Handler: func(_ context.Context, s ttrpc.StreamServer) (any, error) {
					for {
						var m wrapperspb.BytesValue
						if err := s.RecvMsg(&m); err == io.EOF {
							return nil, nil
						} else if err != nil {
							return nil, err
						}
						if err := s.SendMsg(&m); err != nil {
							return nil, err
						}
					}
				}},
		},
	}
}

func serve(path string) error {
	server, err := ttrpc.NewServer()
	if err != nil {
		return err
	}
	server.RegisterService(service, description())
	listener, err := net.Listen("unix", path)
	if err != nil {
		return err
	}
	go func() {
		io.Copy(io.Discard, os.Stdin)
		server.Close()
	}()
	if err := server.Serve(context.Background(), listener); err != nil && !errors.Is(err, ttrpc.ErrServerClosed) {
		return err
	}
	return nil
}
