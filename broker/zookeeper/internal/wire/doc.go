// Package wire speaks ZooKeeper's protocol over one connection, and only as much of the
// protocol as package zookeeper needs.
//
//	caller --Send--> queue --writer--> socket --reader--> replies and events
//
// It exists because go-zookeeper (v1.0.4) neither returns the zxid of a reply's header
// nor reads several znodes atomically (multiRead) nor watches recursively (addWatch).
// The adapter is built on all three.
//
// Guarantees:
//
//   - Requests are sent in the order of Send, and answered in that order.
//   - One goroutine delivers replies and watch events in the order in which the server
//     sent them. ZooKeeper sends the event of a change before any reply that shows the
//     change.
//   - Every request gets exactly one answer. An error says whether the request could
//     have reached the server: see Error.
//   - Damaged or malicious input ends the connection with an error; lengths are checked
//     before memory is allocated.
//
// It does not reconnect, renew sessions, or retry. A broken connection stays broken,
// and its owner dials another one with the same session.
package wire
