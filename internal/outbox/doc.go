// Package outbox holds what a node is to write to the broker, a Lane for each sort of write.
//
//	Put ──▶ waits ──Take──▶ under way ──Done──▶ gone
//	          ▲                 │
//	          └──── Put, for another attempt ───┘
//
// A lane decides what goes into the next call and when: how many writes share a call, how
// many calls run at once, how long the lane rests after the broker has refused one. Notes is
// the lane of audit records, which merges what it holds and lets claims and endings go first.
//
// Nothing here sends anything: who takes a call out of a lane makes it, and says Done when
// the answer is there. There is no clock and no goroutine. Times are arguments, and one
// goroutine owns a lane.
package outbox
