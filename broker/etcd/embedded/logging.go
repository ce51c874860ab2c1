package embedded

import (
	"log/slog"
	"strings"

	"go.uber.org/zap/zapcore"
)

// ordinary are the messages above information that are no news to who runs a
// server like this one: what belongs to a normal start or stop, and requests
// that were refused or slow, which their callers notice.
var ordinary = []string{
	"Running http and grpc server on single port",
	"simple token is not cryptographically signed",
	"failed to apply request",
	// Two lines for each request that took a tenth of a second, with all of its
	// keys, which under load are those of a hundred tasks.
	"apply request took too long",
	"request stats",
	// A server that stops right after it started has not got to this.
	"failed to update cluster version",
	// A new database does not know its version until its first snapshot of
	// the cluster's state; etcd tries again by itself.
	"Failed to detect schema version",
	"failed to update storage version",
}

// logLevel says how much a message of etcd matters to who runs it embedded.
func logLevel(entry zapcore.Entry) slog.Level {
	if entry.Level <= zapcore.InfoLevel {
		return slog.LevelDebug
	}
	for _, text := range ordinary {
		if strings.Contains(entry.Message, text) {
			return slog.LevelDebug
		}
	}
	if entry.Level == zapcore.WarnLevel {
		return slog.LevelWarn
	}
	return slog.LevelError
}
