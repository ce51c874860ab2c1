// Package embedded runs an etcd member inside this process: a store for one machine
// that needs no installation and no port.
//
//	this process                                 others of the same user
//	  Server.Broker ── function calls ── etcd ── unix socket ── Dial
//	                                      │
//	                              folder, locked by this process
//
// # Guarantees
//
//   - It is the real etcd, with its own write-ahead log and fsync: what it acknowledged
//     survives a crash of the process and of the machine.
//   - Nothing listens on the network. Without Config.Socket nothing listens at all.
//     With it, the only listener is a socket that only this user can reach, in a folder
//     of mode 0700. There is never a peer address: etcd turns a unix one into an
//     abstract socket that every user of the machine can open.
//   - Only one process can open a folder. A second one immediately gets an error that
//     names the first (LockedError); etcd itself would hang. The lock ends with its
//     process, however that ends, so no cleanup is needed after a crash.
//   - A folder that another user could change is refused.
//   - A first start that was interrupted, by a kill or a context, is begun anew by the
//     next start. etcd alone would hang in it forever.
//   - A server without a socket runs inside a testing/synctest bubble, with its leases
//     in virtual time, if it is started and closed there.
//
// # What is not guaranteed
//
// It is a single member: when the process is down, so is the store, and when the disk
// is lost, so is the data. For more than one machine, use a cluster of etcd and
// etcd.Open. There is no access control: whoever can reach the socket can do
// everything. After a pause of the whole process longer than their TTL, all sessions
// are gone.
//
// # Failures
//
// If etcd stops by itself, Done is closed, Err returns the cause, and the brokers of
// this server are closed with it. If etcd cannot write its log, it panics, because
// nothing it would return from then on could be relied on. If the quota is reached,
// writes fail with broker.ErrNoSpace until space was freed and the alarm disarmed.
package embedded
