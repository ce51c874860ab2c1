// Package events has what a node and a client tell the program around them: what happens to
// nodes and claims ([Node]), as lines of a log ([Log]), and as spans of a trace ([Tracer]).
//
//	config.Events = events.Log(slog.Default())
//	config.Events.Granted = func(g events.Grant) { moves.Add(g.Type, g.Cause == events.Moved) }
//
// Package metrics counts them for Prometheus, and package tracing makes spans of OpenTelemetry.
package events
