package tree

import (
	"errors"
	"strings"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/internal/depend"
	"github.com/windlass-go/windlass/internal/keys"
)

const pathSeparator = "/"

// Path is a job's place in the tree: the segments of its ancestors and its own,
// separated by slashes, such as requestFile_alpha/downloadFile_alpha. The empty path is
// above all roots.
type Path string

// ParsePath parses a path in either spelling: with slashes, of which one may lead, or
// as the ID of the job's task.
func ParsePath(text string) (Path, error) {
	if strings.Contains(text, pathSeparator) && strings.Contains(text, keys.JobSeparator) {
		return "", &windlass.BadInputError{Field: "job path", Value: text,
			Limit: "must have slashes or vertical bars between its levels, not both"}
	}
	id := strings.ReplaceAll(strings.TrimPrefix(text, pathSeparator), pathSeparator, keys.JobSeparator)
	if err := keys.CheckJobID(id); err != nil {
		if bad, ok := errors.AsType[*windlass.BadInputError](err); ok {
			bad.Field, bad.Value = "job path", text // as it was given, not with bars
		}
		return "", err
	}
	return pathOf(id), nil
}

// pathOf is ParsePath for an ID that was already checked.
func pathOf(id string) Path {
	return Path(strings.ReplaceAll(id, keys.JobSeparator, pathSeparator))
}

// ID returns the ID of the job's task.
func (p Path) ID() string {
	return strings.ReplaceAll(string(p), pathSeparator, keys.JobSeparator)
}

// All returns the need of the job and of all jobs below it, for Spec.Needs.
func (p Path) All() string { return depend.AllBelow(p.ID()) }

// Name returns the name of the job, without those of its ancestors.
func (p Path) Name() string {
	name, _, _ := keys.ParseJobSegment(p.segment())
	return name
}

// Type returns the type of the job.
func (p Path) Type() string {
	_, jobType, _ := keys.ParseJobSegment(p.segment())
	return jobType
}

// segment returns the last segment.
func (p Path) segment() string {
	return string(p[strings.LastIndex(string(p), pathSeparator)+1:])
}

// Parent returns the path of the level above, empty for a root.
func (p Path) Parent() Path {
	return p[:max(0, strings.LastIndex(string(p), pathSeparator))]
}

// Depth returns the number of levels: 1 for a root, 0 for the empty path.
func (p Path) Depth() int {
	if p == "" {
		return 0
	}
	return 1 + strings.Count(string(p), pathSeparator)
}

// Child returns the path of a child job; of a root, if p is empty. It checks nothing;
// ParsePath does.
func (p Path) Child(name, jobType string) Path {
	segment := Path(keys.JobSegment(name, jobType))
	if p == "" {
		return segment
	}
	return p + pathSeparator + segment
}

// String returns the path with slashes.
func (p Path) String() string { return string(p) }

// comparePaths orders paths by their segments, so that a job is followed by everything below
// it. By bytes alone, a_t-1 would come before a_t/b_t.
func comparePaths(a, b Path) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return collate(a[i]) - collate(b[i])
		}
	}
	return len(a) - len(b)
}

// collate orders the separator before every other byte.
func collate(b byte) int {
	if b == pathSeparator[0] {
		return -1
	}
	return int(b)
}
