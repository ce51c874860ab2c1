package metrics_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"

	"go.opentelemetry.io/otel/sdk/trace"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/broker/memory"
	"github.com/windlass-go/windlass/metrics"
	"github.com/windlass-go/windlass/tracing"
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
