// Package sessionkey names the keys by which the sessions of a folder show that they are renewed, on
// a store that cannot tell by itself.
package sessionkey

import (
	"fmt"
	"path"
	"strconv"
	"strings"

	"github.com/windlass-go/windlass/broker"
)

// The keys of a session: Lease exists as long as the session, and Pulse is put with each renewal.
const (
	Lease = "lease"
	Pulse = "pulse"
)

// Of returns one of a session's keys. folder ends in a slash.
func Of(folder string, id broker.SessionID, name string) string {
	return fmt.Sprintf("%s%016x/%s", folder, uint64(id), name)
}

// Parse is the inverse of Of.
func Parse(key string) (folder string, id broker.SessionID, name string, ok bool) {
	dir, name := path.Split(key)
	folder, hex := path.Split(strings.TrimSuffix(dir, "/"))
	n, err := strconv.ParseUint(hex, 16, 64)
	return folder, broker.SessionID(n), name, err == nil && len(hex) == 16 && (name == Lease || name == Pulse)
}
