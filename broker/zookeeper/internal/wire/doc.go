// Package wire speaks ZooKeeper's protocol: one connection, and no more of the
// protocol than package zookeeper needs.
//
//	caller --Send--> queue --writer--> socket --reader--> replies and events
//
// It exists because go-zookeeper (v1.0.4) neither returns the zxid of a reply's header
// nor reads several znodes atomically (multiRead) nor watches recursively (addWatch),
// all of which the adapter is built on.
//
// What it guarantees:
//
//   - Requests are sent in the order of Send, and answered in that order.
//   - Replies and watch events are handed over by one goroutine in the order in
//     which the server sent them. ZooKeeper sends the event of a change before any
//     reply that shows the change.
//   - Every request gets exactly one answer. An error says whether the request
//     could have reached the server: see Error.
//   - Damaged or malicious input ends the connection with an error; lengths are
//     bounded before memory is taken.
//
// What it does not do: connect anew, renew sessions, or retry. A connection that
// broke stays broken, and its owner dials another one with the same session.
package wire
