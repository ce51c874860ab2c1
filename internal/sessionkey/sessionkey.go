// Package sessionkey names the keys by which the sessions of a folder show that they are renewed, on
// a store that cannot tell by itself.
package sessionkey

import (
	"fmt"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/windlass-go/windlass/broker"
)

// The keys of a session: Lease exists as long as the session, and has the TTL as its value. Pulse
// is put with each renewal, and has its Stamp.
const (
	Lease = "lease"
	Pulse = "pulse"
)

// Of returns one of a session's keys. folder ends in a slash.
func Of(folder string, id broker.SessionID, name string) string {
	return fmt.Sprintf("%s%016x/%s", folder, uint64(id), name)
}

// Stamp is the value of a pulse: when the session was renewed, by the clock of its process.
func Stamp(at time.Time) []byte { return []byte(at.UTC().Format(time.RFC3339)) }

// ParseStamp returns the time of a pulse, zero if it has none.
func ParseStamp(value []byte) time.Time {
	at, err := time.Parse(time.RFC3339, string(value))
	if err != nil {
		return time.Time{}
	}
	return at
}

// Parse is the inverse of Of.
func Parse(key string) (folder string, id broker.SessionID, name string, ok bool) {
	dir, name := path.Split(key)
	folder, hex := path.Split(strings.TrimSuffix(dir, "/"))
	n, err := strconv.ParseUint(hex, 16, 64)
	return folder, broker.SessionID(n), name, err == nil && len(hex) == 16 && (name == Lease || name == Pulse)
}
