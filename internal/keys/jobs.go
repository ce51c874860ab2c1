package keys

import (
	"fmt"
	"strings"

	"github.com/windlass-go/windlass/internal/invalid"
	"github.com/windlass-go/windlass/internal/shorten"
)

// JobSeparator joins the segments of a job's path into the ID of its task.
const JobSeparator = "|"

// JobDepthMax limits the segments of a job's path.
const JobDepthMax = 64

// CheckJobName returns an error for a job name that cannot be part of a path.
func CheckJobName(name string) error { return checkJobPart("job name", name, "") }

// CheckJobType returns an error for a job type that cannot be part of a path. In a
// path, the type follows the last underscore of a segment.
func CheckJobType(jobType string) error { return checkJobPart("job type", jobType, "_") }

func checkJobPart(field, value, forbidden string) error {
	if err := checkSegment(field, value, TaskIDBytesMax); err != nil {
		return err
	}
	if i := strings.IndexAny(value, ` /\|`+forbidden); i >= 0 {
		return &invalid.Input{Field: field, Value: value, Limit: fmt.Sprintf("must not contain %q", value[i])}
	}
	return nil
}

// JobSegment returns a job's segment of its path.
func JobSegment(name, jobType string) string { return name + "_" + jobType }

// ParseJobSegment parses a segment of a path. It returns false if no job can have it.
func ParseJobSegment(segment string) (name, jobType string, ok bool) {
	i := strings.LastIndexByte(segment, '_')
	if i < 0 {
		return "", "", false
	}
	name, jobType = segment[:i], segment[i+1:]
	return name, jobType, CheckJobName(name) == nil && CheckJobType(jobType) == nil
}

// CheckJobID returns an error for an ID that is not the path of a job.
func CheckJobID(id string) error {
	if err := CheckTaskID(id); err != nil {
		return err
	}
	segments := strings.Split(id, JobSeparator)
	if n := len(segments); n > JobDepthMax {
		return &invalid.Input{Field: "job path", Value: id, Limit: fmt.Sprintf("has %d levels; the limit is %d", n, JobDepthMax)}
	}
	for _, segment := range segments {
		if _, _, ok := ParseJobSegment(segment); !ok {
			return &invalid.Input{Field: "job path", Value: id, Limit: fmt.Sprintf("%q is not a name and a type joined by an underscore", shorten.To(segment, 80))}
		}
	}
	return nil
}

// Jobs is the prefix of the jobs of the tree.
func (s Space) Jobs() string { return s.root + "/tree/" }

// Job is a job of the tree as it was queued, by the ID of its task.
func (s Space) Job(id string) string {
	return s.root + "/tree/" + strings.ReplaceAll(id, JobSeparator, "/")
}

// JobTree is the prefix of the jobs below one.
func (s Space) JobTree(id string) string { return s.Job(id) + "/" }

// Failed is the mark of a task that failed or was killed, and whose dependants are not
// to run.
func (s Space) Failed(id string) string { return s.root + "/tasks/" + id + "/failed" }

// Requeue is the next submission of a task, for when its run has ended.
func (s Space) Requeue(id string) string { return s.root + "/tasks/" + id + "/requeue" }

func parseJob(path string) Parsed {
	id := strings.ReplaceAll(path, "/", JobSeparator)
	if strings.Contains(path, JobSeparator) || CheckJobID(id) != nil {
		return Parsed{}
	}
	return Parsed{Kind: Job, Name: id}
}
