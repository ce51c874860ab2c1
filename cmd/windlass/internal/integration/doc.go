// Package integration has the tests of whole clusters: nodes and clients on a broker in
// memory or on an etcd that nobody listens to, in virtual time. A file has the tests of one
// feature.
package integration
