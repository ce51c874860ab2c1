package cli

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/windlass-go/windlass"
)

// otlp is a collector of spans.
func otlp(t *testing.T) (url string, got <-chan *collector.ExportTraceServiceRequest) {
	requests := make(chan *collector.ExportTraceServiceRequest, 10)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		var spans collector.ExportTraceServiceRequest
		if err = errors.Join(err, proto.Unmarshal(body, &spans)); err != nil || r.URL.Path != "/v1/traces" {
			t.Errorf("%s %s: %v", r.Method, r.URL.Path, err)
		}
		w.Header().Set("Content-Type", "application/x-protobuf")
		requests <- &spans
	}))
	t.Cleanup(server.Close)
	return server.URL, requests
}

func TestTracing_SendsSpansToWhomTheStandardVariablesName(t *testing.T) {
	url, got := otlp(t)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", url)
	a := &app{err: io.Discard}
	var tracer windlass.Tracer
	stop, err := a.startTracing(t.Context(), slog.New(slog.DiscardHandler), &tracer)
	if err != nil {
		t.Fatal(err)
	}
	_, span := tracer.Start(context.Background(), windlass.SpanStart{Op: windlass.SpanSubmit, Task: "a"})
	span.End(windlass.SpanEnd{})
	stop()
	var names, services []string
	for _, r := range (<-got).ResourceSpans {
		for _, about := range r.Resource.Attributes {
			if about.Key == "service.name" {
				services = append(services, about.Value.GetStringValue())
			}
		}
		for _, s := range r.ScopeSpans {
			for _, span := range s.Spans {
				names = append(names, span.Name)
			}
		}
	}
	if !slices.Equal(names, []string{"windlass.submit"}) || !slices.Equal(services, []string{"windlass"}) {
		t.Errorf("it sent %q of %q", names, services)
	}
}

func TestTracing_IsOffUnlessItIsAskedFor(t *testing.T) {
	for _, test := range []struct {
		env  map[string]string
		want bool
		says string
	}{
		{env: map[string]string{}},
		{env: map[string]string{"OTEL_TRACES_EXPORTER": "otlp"}, want: true},
		{env: map[string]string{"OTEL_TRACES_EXPORTER": "none", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"}},
		{env: map[string]string{"OTEL_SDK_DISABLED": "true", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"}},
		{env: map[string]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://127.0.0.1:1"}, want: true},
		{env: map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf"}, want: true},
		{env: map[string]string{"OTEL_TRACES_EXPORTER": "console"}, says: `OTEL_TRACES_EXPORTER "console": must be otlp or none`},
		{env: map[string]string{"OTEL_TRACES_EXPORTER": "otlp", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, says: `OTEL_EXPORTER_OTLP_PROTOCOL "grpc": must be http/protobuf`},
	} {
		t.Run("", func(t *testing.T) {
			for _, name := range []string{"OTEL_SDK_DISABLED", "OTEL_TRACES_EXPORTER", "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
				"OTEL_EXPORTER_OTLP_PROTOCOL", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"} {
				t.Setenv(name, test.env[name])
			}
			var tracer windlass.Tracer
			stop, err := (&app{err: io.Discard}).startTracing(t.Context(), slog.New(slog.DiscardHandler), &tracer)
			if err != nil {
				if test.says == "" || !strings.Contains(err.Error(), test.says) {
					t.Errorf("%v: %v, want %q", test.env, err, test.says)
				}
				return
			}
			stop()
			if test.says != "" || (tracer != nil) != test.want {
				t.Errorf("%v: a tracer: %t", test.env, tracer != nil)
			}
		})
	}
}
