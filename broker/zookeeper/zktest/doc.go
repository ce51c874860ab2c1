// Package zktest runs real ZooKeeper servers for tests, from the jars that Debian and
// Ubuntu install. It runs a single server, or an ensemble whose members can be killed,
// frozen and started again. Without Java or ZooKeeper a test is skipped, and says what
// to install.
//
// A server lives in a temporary folder and ends with the test's process, however that
// ends: a shell waits for the end of its standard input and kills it.
package zktest
