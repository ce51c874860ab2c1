package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	"google.golang.org/protobuf/proto"

	"github.com/windlass-go/windlass/events"
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

func TestTracing_SendsSpansToTheConfiguredCollector(t *testing.T) {
	url, got := otlp(t)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", url)
	a := &app{err: io.Discard}
	var tracer events.Tracer
	stop, err := a.startTracing(t.Context(), slog.New(slog.DiscardHandler), &tracer)
	if err != nil {
		t.Fatal(err)
	}
	_, span := tracer.Start(context.Background(), events.SpanStart{Op: events.SpanSubmit, Task: "a"})
	span.End(events.SpanEnd{})
	stop()
	sent := (<-got).ResourceSpans[0]
	ofWindlass := slices.ContainsFunc(sent.Resource.Attributes, func(about *common.KeyValue) bool {
		return about.Key == "service.name" && about.Value.GetStringValue() == "windlass"
	})
	if spans := sent.ScopeSpans[0].Spans; len(spans) != 1 || spans[0].Name != "windlass.submit" || !ofWindlass {
		t.Errorf("it sent %v", sent)
	}
}

func TestTracing_IsOffByDefault(t *testing.T) {
	const endpoint = "OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:1 "
	for env, want := range map[string]string{
		"":                                     "false <nil>",
		"OTEL_TRACES_EXPORTER=otlp":            "true <nil>",
		endpoint + "OTEL_TRACES_EXPORTER=none": "false <nil>",
		endpoint + "OTEL_SDK_DISABLED=true":    "false <nil>",
		"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=http://x:1":        "true <nil>",
		endpoint + "OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf": "true <nil>",
		"OTEL_TRACES_EXPORTER=console":                         `false OTEL_TRACES_EXPORTER "console": must be otlp or none`,
		endpoint + "OTEL_EXPORTER_OTLP_PROTOCOL=grpc":          `false OTEL_EXPORTER_OTLP_PROTOCOL "grpc": must be http/protobuf`,
	} {
		t.Run("", func(t *testing.T) {
			for _, name := range []string{"OTEL_SDK_DISABLED", "OTEL_TRACES_EXPORTER", "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
				"OTEL_EXPORTER_OTLP_PROTOCOL", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"} {
				t.Setenv(name, "")
			}
			for _, variable := range strings.Fields(env) {
				name, value, _ := strings.Cut(variable, "=")
				t.Setenv(name, value)
			}
			var tracer events.Tracer
			stop, err := (&app{err: io.Discard}).startTracing(t.Context(), slog.New(slog.DiscardHandler), &tracer)
			if err == nil {
				defer stop()
			}
			if got := fmt.Sprint(tracer != nil, " ", err); got != want {
				t.Errorf("%s: %s, want %s", env, got, want)
			}
		})
	}
}
