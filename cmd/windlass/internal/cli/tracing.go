package cli

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"os"
	"strings"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	"go.opentelemetry.io/otel/sdk/trace"

	"github.com/windlass-go/windlass/events"
	"github.com/windlass-go/windlass/observe/tracing"
)

// tracingEndTimeout bounds how long the end of a program waits for its last spans.
const tracingEndTimeout = 5 * time.Second

// tracesWanted reports whether the standard variables ask for traces.
func tracesWanted() (bool, error) {
	exporter := os.Getenv("OTEL_TRACES_EXPORTER")
	switch endpoint := cmp.Or(os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT"), os.Getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")); {
	case strings.EqualFold(os.Getenv("OTEL_SDK_DISABLED"), "true"), exporter == "none", exporter == "" && endpoint == "":
		return false, nil
	case exporter != "" && exporter != "otlp":
		return false, usagef("OTEL_TRACES_EXPORTER %q: must be otlp or none", exporter)
	}
	for _, name := range []string{"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"} {
		switch protocol := os.Getenv(name); protocol {
		case "":
		case "http/protobuf":
			return true, nil
		default:
			return false, usagef("%s %q: must be http/protobuf", name, protocol)
		}
	}
	return true, nil
}

// startTracing sets tracer if the standard variables ask for traces. stop sends the last
// spans and logs errors.
func (a *app) startTracing(ctx context.Context, log *slog.Logger, tracer *events.Tracer) (stop func(), err error) {
	wanted, err := tracesWanted()
	if err != nil || !wanted {
		return func() {}, err
	}
	exporter, err := otlptracehttp.New(ctx) // it reads the variables, and does not connect yet
	if err != nil {
		return nil, usagef("OTEL_EXPORTER_OTLP_ENDPOINT: %w", err)
	}
	about, err := resource.New(ctx, resource.WithAttributes(tracing.Service("windlass")), resource.WithFromEnv(), resource.WithTelemetrySDK())
	if err != nil && !errors.Is(err, resource.ErrPartialResource) {
		return nil, errors.Join(usagef("OTEL_RESOURCE_ATTRIBUTES: %w", err), exporter.Shutdown(ctx))
	}
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { log.Warn("spans were not sent", "error", err) }))
	provider := trace.NewTracerProvider(trace.WithBatcher(exporter), trace.WithResource(about))
	*tracer = tracing.New(provider)
	return func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), tracingEndTimeout)
		defer cancel()
		if err := provider.Shutdown(ctx); err != nil {
			log.Warn("spans were not sent", "error", err)
		}
	}, nil
}
