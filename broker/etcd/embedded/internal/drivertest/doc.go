// Package drivertest has the tests of package etcd that need a server, which is not
// part of that package's module.
package drivertest
