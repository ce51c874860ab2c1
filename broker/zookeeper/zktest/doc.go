// Package zktest runs real ZooKeeper servers for tests, from the jars that Debian
// and Ubuntu install: one, or an ensemble whose members can be killed, stopped in
// their tracks and started again. A test is skipped, and says what to install,
// where there is no Java or no ZooKeeper.
//
// A server lives in a temporary folder and dies with the test's process, however
// that ends: a shell waits for the end of its standard input and kills it.
package zktest
