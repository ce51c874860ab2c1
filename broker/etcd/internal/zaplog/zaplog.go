// Package zaplog lets etcd, which logs to zap, log to slog. It changes no global
// logger.
//
// etcd reports at error level what is part of every normal start and stop, so a
// Level function decides anew how much each message matters. What etcd calls
// fatal ends the process whatever the logger: zap would do so without a word
// when the logger is silent, so here it is told to who asked for it, and is a
// panic that says what happened otherwise.
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

// Level decides at which level a message is passed on.
type Level func(zapcore.Entry) slog.Level

// AllDebug passes everything on at debug level.
func AllDebug(zapcore.Entry) slog.Level { return slog.LevelDebug }

// New returns a zap logger that logs to logger, or nowhere when it is nil. What
// etcd calls fatal goes to fatal, which does not return; nil is a panic.
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

// core is immutable; With makes another.
type core struct {
	handler slog.Handler
	level   Level
}

var _ zapcore.Core = core{}

// Enabled says yes to all that could matter: the level that counts is known
// only with the message. What etcd calls debugging has the values of requests in it, whole,
// and goes nowhere.
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
	panic(text) // whoever wrote the message relies on not going on
}
