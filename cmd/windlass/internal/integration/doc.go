// Package integration has the tests of whole clusters: nodes and clients on a broker in
// memory, or on an etcd that does not listen on the network, in virtual time. Each file
// has the tests of one feature.
package integration
