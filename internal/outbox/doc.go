// Package outbox holds a node's pending writes to the broker, with a Lane for each sort
// of write.
//
//	Put ──▶ waits ──Take──▶ under way ──Done──▶ gone
//	          ▲                 │
//	          └──── Put, for another attempt ───┘
//
// A lane decides what goes into the next call and when: how many writes share a call,
// how many calls run at once, and how long the lane pauses after the broker has refused
// one. AuditQueue is the lane of audit records, which merges its records and lets claims and
// endings go first.
//
// Nothing here sends anything: whoever takes a call out of a lane makes it, and calls
// Done when the answer arrives. There is no clock and no goroutine. Times are
// arguments, and one goroutine owns a lane.
package outbox
