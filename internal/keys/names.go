package keys

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/windlass-go/windlass/internal/invalid"
)

// Limits of names, in bytes.
const (
	// TaskIDBytesMax limits a task's ID.
	TaskIDBytesMax = 512
	// TypeBytesMax limits the name of a type.
	TypeBytesMax = 128
	// NodeNameBytesMax limits a node's name.
	NodeNameBytesMax = 128
	// ElectionNameBytesMax limits an election's name, and a candidate's.
	ElectionNameBytesMax = 128
	// NamespaceBytesMax limits a namespace, slashes included.
	NamespaceBytesMax = 200
)

// CheckTaskID returns an error for an ID that some store could not keep in a path.
func CheckTaskID(id string) error { return checkSegment("task ID", id, TaskIDBytesMax) }

// CheckNodeName returns an error for a node name that some store could not keep in a
// path.
func CheckNodeName(name string) error { return checkSegment("node name", name, NodeNameBytesMax) }

// CheckProcess returns an error for the name of a process of a node that could not be that of a node.
func CheckProcess(name string) error { return checkSegment("process", name, NodeNameBytesMax) }

// RetentionElection is the election of the node that deletes the records of old tasks.
// No user's election can have such a name.
const RetentionElection = "_retention"

// CheckElectionName returns an error for an election's name that some store could not
// keep in a path.
func CheckElectionName(name string) error {
	if name == RetentionElection {
		return nil
	}
	return checkNotBlank("election name", name)
}

// CheckCandidateName returns an error for a candidate's name that some store could not
// keep in a path.
func CheckCandidateName(name string) error { return checkNotBlank("candidate name", name) }

func checkNotBlank(field, name string) error {
	if name != "" && strings.TrimSpace(name) == "" {
		return &invalid.Input{Field: field, Value: name, Limit: "must not be blank"}
	}
	return checkSegment(field, name, ElectionNameBytesMax)
}

func checkSegment(field, value string, bytesMax int) error {
	refuse := func(limit string) error { return &invalid.Input{Field: field, Value: value, Limit: limit} }
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

// allowedRune reports whether etcd and ZooKeeper both accept a character in a path
// segment. ZooKeeper checks UTF-16 units and refuses surrogates, private use and
// specials, so only the basic plane is left.
func allowedRune(r rune) bool {
	return r != '/' && r < 0xfff0 && unicode.IsPrint(r)
}

// AnyType stands for all types of tasks.
const AnyType = "*"

// CheckType returns an error for a type of tasks that some store could not keep in a path.
func CheckType(name string) error {
	if len(name) > TypeBytesMax {
		return &invalid.Input{Field: "type", Value: name, Limit: fmt.Sprintf("must be at most %d bytes", TypeBytesMax)}
	}
	if CheckTaskID(name) != nil || name == AnyType {
		return &invalid.Input{Field: "type", Value: name, Limit: `must be printable, without a slash, and not "*"`}
	}
	return nil
}
