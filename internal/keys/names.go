package keys

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/windlass-go/windlass/internal/shorten"
)

// Limits of names, in bytes.
const (
	// TaskIDBytesMax bounds a task's ID.
	TaskIDBytesMax = 512
	// NodeNameBytesMax bounds a node's name.
	NodeNameBytesMax = 128
	// ElectionNameBytesMax bounds an election's name, and a candidate's.
	ElectionNameBytesMax = 128
	// NamespaceBytesMax bounds a namespace, slashes included.
	NamespaceBytesMax = 200
)

// NameError says what is wrong with a name.
type NameError struct {
	// Field is what was named: "task ID", "node name", "election name",
	// "candidate name" or "namespace".
	Field string
	// Value is the offending value.
	Value string
	// Limit says what is allowed.
	Limit string
}

// Error implements error.
func (e *NameError) Error() string {
	return fmt.Sprintf("%s %q: %s", e.Field, shorten.To(e.Value, 80), e.Limit)
}

// CheckTaskID refuses an ID that not every store could keep in a path.
func CheckTaskID(id string) error { return checkSegment("task ID", id, TaskIDBytesMax) }

// CheckNodeName refuses a node name that not every store could keep in a path.
func CheckNodeName(name string) error { return checkSegment("node name", name, NodeNameBytesMax) }

// RetentionElection is the election by which nodes agree which one of them forgets
// old tasks. No user's election has such a name.
const RetentionElection = "_retention"

// CheckElectionName refuses an election's name that not every store could keep in
// a path.
func CheckElectionName(name string) error {
	if name == RetentionElection {
		return nil
	}
	return checkNotBlank("election name", name)
}

// CheckCandidateName refuses a candidate's name that not every store could keep
// in a path.
func CheckCandidateName(name string) error {
	return checkNotBlank("candidate name", name)
}

func checkNotBlank(field, name string) error {
	if name != "" && strings.TrimSpace(name) == "" {
		return &NameError{Field: field, Value: name, Limit: "must not be blank"}
	}
	return checkSegment(field, name, ElectionNameBytesMax)
}

func checkSegment(field, value string, bytesMax int) error {
	refuse := func(limit string) error {
		return &NameError{Field: field, Value: value, Limit: limit}
	}
	switch {
	case value == "":
		return refuse("must not be empty")
	case len(value) > bytesMax:
		return refuse(fmt.Sprintf("has %d bytes; the limit is %d", len(value), bytesMax))
	case value == "." || value == "..":
		return refuse(`must not be "." or ".."`)
	case value[0] == '_':
		return refuse("must not begin with an underscore")
	case !utf8.ValidString(value):
		return refuse("must be valid UTF-8")
	}
	for _, r := range value {
		if !allowedRune(r) {
			return refuse(fmt.Sprintf("must not contain %q; allowed are printable characters up to U+FFEF, without the slash", r))
		}
	}
	return nil
}

// allowedRune accepts what etcd and ZooKeeper both accept in a path segment.
// ZooKeeper looks at UTF-16 units and refuses surrogates, private use and
// specials, which rules out everything beyond the basic plane.
func allowedRune(r rune) bool {
	return r != '/' && r < 0xfff0 && unicode.IsPrint(r)
}
