// Package embedded runs an etcd member inside this process: a store for one
// machine that needs no installation and no port.
//
//	this process                                 others of the same user
//	  Server.Broker ── function calls ── etcd ── unix socket ── Dial
//	                                      │
//	                              folder, locked by this process
//
// # What it guarantees
//
//   - It is the real etcd, with its own write-ahead log and fsync: what it
//     acknowledged survives a crash of the process and of the machine.
//   - Nothing listens on the network. Without Config.Socket nothing listens at
//     all; with it, a socket that only this user can reach, in a folder of mode
//     0700. There is never a peer address: etcd turns a unix one into an abstract
//     socket that every user of the machine can open.
//   - Only one process has a folder open. Another one is told at once who has it
//     (LockedError); etcd itself would hang. The lock goes with its process,
//     however that ends, so nothing has to be cleaned up after a crash.
//   - A folder that another user could change is refused.
//   - A first start that was cut short, by a kill or a context, is begun anew by
//     the next. etcd alone would hang in it for ever.
//   - A server without a socket runs inside a testing/synctest bubble, with its
//     leases in virtual time, if it is started and closed there.
//
// # What it does not
//
// It is one member: when the process is down, so is the store, and when the disk
// is lost, so is the data. For more than one machine, use a cluster of etcd and
// etcd.Open. There is no access control: who can reach the socket can do
// everything. After a pause of the whole process longer than their TTL, all
// sessions are gone.
//
// # How it fails
//
// When etcd stops by itself, Done is closed, Err says why, and the brokers of
// this server are closed with that cause. When it cannot write its log, it
// panics, because nothing it would say from then on could be relied on. When the
// quota is reached, writes fail with broker.ErrNoSpace until space was made and
// the alarm disarmed.
package embedded
