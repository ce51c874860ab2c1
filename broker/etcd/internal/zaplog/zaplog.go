// Package zaplog passes etcd's log messages, which go to zap, to slog. It changes no global
// logger.
//
// etcd logs messages of every normal start and stop at error level, so a Level function
// decides the level of each message anew. A fatal message must end the process: zap would do
// so silently if the logger is silent, so here it calls a function, or panics with the
// message.
package zaplog

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// Level returns the level at which a message is passed on.
type Level func(zapcore.Entry) slog.Level

// AllDebug passes all messages on at debug level.
func AllDebug(zapcore.Entry) slog.Level { return slog.LevelDebug }

// New returns a zap logger that logs to logger, or nowhere if it is nil. Fatal messages go to
// fatal, which must not return; if it is nil, they panic.
func New(logger *slog.Logger, level Level, fatal func(text string)) *zap.Logger {
	handler := slog.DiscardHandler
	if logger != nil {
		handler = logger.Handler()
	}
	if fatal == nil {
		fatal = func(text string) { panic(text) }
	}
	return zap.New(core{handler, level}, zap.WithFatalHook(fatalHook(fatal)))
}

// core is immutable; With returns another.
type core struct {
	handler slog.Handler
	level   Level
}

var _ zapcore.Core = core{}

// Enabled accepts all levels but debug, because the final level is known only with the
// message. Debug messages contain the values of requests, and are dropped.
func (c core) Enabled(level zapcore.Level) bool { return level > zapcore.DebugLevel }

// With implements zapcore.Core.
func (c core) With(fields []zapcore.Field) zapcore.Core {
	return core{c.handler.WithAttrs(attributes(fields)), c.level}
}

// Check implements zapcore.Core.
func (c core) Check(entry zapcore.Entry, checked *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if c.handler.Enabled(context.Background(), c.level(entry)) {
		return checked.AddCore(entry, c)
	}
	return checked
}

// Write implements zapcore.Core.
func (c core) Write(entry zapcore.Entry, fields []zapcore.Field) error {
	record := slog.NewRecord(entry.Time, c.level(entry), entry.Message, entry.Caller.PC)
	record.AddAttrs(attributes(fields)...)
	return c.handler.Handle(context.Background(), record)
}

// Sync implements zapcore.Core.
func (core) Sync() error { return nil }

func attributes(fields []zapcore.Field) []slog.Attr {
	values := fieldValues(fields)
	attrs := make([]slog.Attr, 0, len(values))
	for _, key := range slices.Sorted(maps.Keys(values)) {
		attrs = append(attrs, slog.Any(key, values[key]))
	}
	return attrs
}

func fieldValues(fields []zapcore.Field) map[string]any {
	encoder := zapcore.NewMapObjectEncoder()
	for _, field := range fields {
		field.AddTo(encoder)
	}
	return encoder.Fields
}

// fatalHook replaces zap's silent exit.
type fatalHook func(text string)

// OnWrite implements zapcore.CheckWriteHook.
func (end fatalHook) OnWrite(entry *zapcore.CheckedEntry, fields []zapcore.Field) {
	text := fmt.Sprintf("etcd: %s %v", entry.Message, fieldValues(fields))
	end(text)
	panic(text) // the caller relies on not continuing
}
