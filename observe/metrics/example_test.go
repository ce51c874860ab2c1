package metrics_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"

	"go.opentelemetry.io/otel/sdk/trace"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/broker/memory"
	"github.com/windlass-go/windlass/events"
	"github.com/windlass-go/windlass/observe/metrics"
	"github.com/windlass-go/windlass/observe/tracing"
)

// A node whose metrics are served along with those of its program, and whose spans
// go to the program's provider.
func Example() {
	provider := trace.NewTracerProvider() // with your exporter: trace.WithBatcher(…)
	tracer := tracing.New(provider)
	m, err := metrics.New(metrics.Config{})
	if err != nil {
		panic(err)
	}
	node, err := windlass.NewNode(m.Instrument(windlass.Config{
		Broker: memory.New().Broker(), Name: "n1", Tracer: tracer,
		Handlers: map[string]windlass.NewHandler{"poll": windlass.HandlerFunc(poll)},
	}))
	if err != nil {
		panic(err)
	}
	m.Watch(node)
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", m.Handler())

	w := httptest.NewRecorder()
	mux.ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	fmt.Println(w.Code)
	// Output: 200
}

func poll(ctx context.Context, _ *windlass.Claim) error {
	<-ctx.Done() // its span is current in ctx: what is called with it is below the run
	return ctx.Err()
}

// inAProgram is what the guide to observability shows.
func inAProgram(ctx context.Context, store broker.Broker, hostname string, exporter trace.SpanExporter, handlers map[string]windlass.NewHandler) error {
	provider := trace.NewTracerProvider(trace.WithBatcher(exporter)) // go.opentelemetry.io/otel/sdk/trace
	defer func() { slog.Info("spans were sent", "error", provider.Shutdown(context.WithoutCancel(ctx))) }()
	tracer := tracing.New(provider)

	m, err := metrics.New(metrics.Config{Namespace: "/shop"}) // or with your own Registry
	if err != nil {
		return err
	}
	node, err := windlass.NewNode(m.Instrument(windlass.Config{
		Broker: store, Namespace: "/shop", Name: hostname, Handlers: handlers,
		Tracer: tracer, Events: events.Log(slog.Default().With("node", hostname)),
	}))
	if err != nil {
		return err
	}
	m.Watch(node)
	http.Handle("GET /metrics", m.Handler())
	return node.Run(ctx)
}

// ofTheStore is the other part of it: the broker for etcd has a method Space.
func ofTheStore(store interface {
	Space(ctx context.Context) (used, quota int64, err error)
}) (*metrics.Metrics, error) {
	return metrics.New(metrics.Config{Space: store.Space})
}

var _, _ = inAProgram, ofTheStore
