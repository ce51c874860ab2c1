// Package layout knows the version of what a namespace holds. Whoever writes into
// one looks first, and leaves one from the future alone.
package layout

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/internal/keys"
)

// Version is what this program reads and writes.
const Version = 1

// ErrLayout: the namespace's layout is of a version from the future.
var ErrLayout = errors.New("the layout of the namespace is newer than this version knows")

// Error says that a namespace's layout is of a version from the future. It is an
// ErrLayout.
type Error struct {
	// Namespace is where, with its leading slash.
	Namespace string
	// Found is the version there, Known the newest that this program knows.
	Found, Known int
}

// Error implements error.
func (e *Error) Error() string {
	return fmt.Sprintf("namespace %s has layout version %d; this version of windlass knows layouts up to version %d",
		e.Namespace, e.Found, e.Known)
}

// Is makes it an ErrLayout.
func (e *Error) Is(target error) bool { return target == ErrLayout }

// value is that of the layout key. Unknown fields are ignored.
type value struct {
	Version int `json:"version"`
}

// Parse reads the value of a layout key.
func Parse(content []byte) (version int, err error) {
	var v value
	if err := json.Unmarshal(content, &v); err != nil {
		return 0, fmt.Errorf("layout: %w", err)
	}
	if v.Version < 1 {
		return 0, fmt.Errorf("layout: version %d: it is at least 1", v.Version)
	}
	return v.Version, nil
}

// Now is what this program writes where there is no layout key.
func Now() []byte {
	content, err := json.Marshal(value{Version: Version})
	if err != nil {
		return nil // cannot be: a struct of one number always marshals
	}
	return content
}

// Check refuses a version from the future, with an Error.
func Check(namespace string, version int) error {
	if version > Version {
		return &Error{Namespace: namespace, Found: version, Known: Version}
	}
	return nil
}

// Accept looks at a namespace's layout, and writes this program's where there is
// none. A value that cannot be read stops nobody: a damaged key would then be an
// outage.
func Accept(ctx context.Context, b broker.Broker, space keys.Space) error {
	r, err := broker.CommitOne(ctx, b, broker.Txn{
		If:   []broker.Cond{broker.Absent(space.Layout())},
		Then: []broker.Op{broker.Put(space.Layout(), Now())},
		Else: []broker.Op{broker.Read(space.Layout())},
	})
	if err != nil || r.OK {
		return err
	}
	version, err := Parse(r.Reads[0].Value)
	if err != nil {
		return nil
	}
	return Check(space.Root(), version)
}
