package embedded

import (
	"log/slog"
	"slices"
	"strings"

	"go.uber.org/zap/zapcore"
)

// ordinary are messages above information level that do not matter for an embedded server:
// those of a normal start or stop, and of requests that were refused or slow, which their
// callers notice.
var ordinary = []string{
	"Running http and grpc server on single port",
	"simple token is not cryptographically signed",
	"failed to apply request",
	// Each request that took a tenth of a second, with all of its keys, which under load
	// are those of a hundred tasks.
	"apply request took too long",
	"request stats",
	// For a server that stops right after its start.
	"failed to update cluster version",
	// A new database does not know its version until the first snapshot of the cluster's
	// state; etcd retries.
	"Failed to detect schema version",
	"failed to update storage version",
}

// logLevel returns the level of a message for an embedded server.
func logLevel(entry zapcore.Entry) slog.Level {
	switch {
	case entry.Level <= zapcore.InfoLevel,
		slices.ContainsFunc(ordinary, func(text string) bool { return strings.Contains(entry.Message, text) }):
		return slog.LevelDebug
	case entry.Level == zapcore.WarnLevel:
		return slog.LevelWarn
	}
	return slog.LevelError
}
