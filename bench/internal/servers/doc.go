// Package servers runs the stores of a comparison, each in processes of its own
// with its data in a folder that is given, on ports of this machine that are free,
// and with everything that it acknowledges written to disk:
//
//	etcd        one member or three, each a process of this program with etcd's server in it
//	PostgreSQL  initdb and postgres, of Debian's package postgresql
//	Redis       redis-server, of Debian's package redis-server
//
// What is not installed is said by the functions that begin with Missing, so that a
// comparison can go on without it. PostgreSQL refuses to run as root; it runs as the
// user postgres then. PostgreSQL and Redis want a password, which is made up for the
// run, because others may be logged in to this machine.
//
// A server ends with this process, however that ends.
package servers
