// Package jobs compares queues of finite jobs: Windlass on etcd, River on PostgreSQL
// and asynq on Redis. A job does nothing, so what is measured is the queue.
//
//	this process ── enqueues ──▶ store ◀── takes, completes ── worker processes
//	      ▲                                                         │
//	      └───────── how many are completed, and when ──────────────┘
//
// Each worker is a process of its own, which says every few milliseconds how many
// jobs it has completed and when the last one was, by the clock that the processes
// of a machine share. A job counts as completed when the store has acknowledged it:
// Windlass and River tell; asynq tells nobody, so its store is asked.
//
// Every trial has a store with nothing in it, of which the others are not running,
// and begins with jobs that are not counted. The sides take turns, in changing
// order.
package jobs
