package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/internal/view"
	"github.com/windlass-go/windlass/tree"
)

type jobInput struct {
	Path string `path:"path" doc:"path of the job, a_b/c_d with its slashes escaped as %2F, or the ID of its task, a_b|c_d"`
}

type treeInput struct {
	Path string `query:"path" doc:"path of the job whose subtree to show; empty for the whole tree"`
}

type jobsInput struct {
	State string   `query:"state" enum:"pending,working,completed" doc:"only live jobs that are not held, held jobs, or completed ones"`
	Types []string `query:"type,explode" doc:"only these types; repeatable"`
	Name  string   `query:"name_matches" doc:"only those whose whole name matches this regular expression"`
	Type  string   `query:"type_matches" doc:"only those whose whole type matches this regular expression"`
}

func (s *Server) registerJobs() {
	const tag = "tree"
	add(s, endpoint{ID: "showTree", Whole: true, Method: http.MethodGet, Path: "/v1/tree", Tag: tag, Errors: []int{http.StatusNotFound},
		Summary: "The tree or the subtree of a job, with its progress",
	}, func(ctx context.Context, in *treeInput) (*ok[view.Forest], error) {
		part, err := s.part(ctx, in.Path)
		if err != nil {
			return nil, err
		}
		return &ok[view.Forest]{view.ForestOf(part, time.Now())}, nil
	})
	add(s, endpoint{ID: "treeProgress", Whole: true, Method: http.MethodGet, Path: "/v1/tree/progress", Tag: tag, Errors: []int{http.StatusNotFound},
		Summary: "The progress of the tree or of the subtree of a job",
	}, func(ctx context.Context, in *treeInput) (*ok[tree.Progress], error) {
		part, err := s.part(ctx, in.Path)
		if err != nil {
			return nil, err
		}
		return &ok[tree.Progress]{part.Progress(time.Now())}, nil
	})
	add(s, endpoint{ID: "listJobs", Whole: true, Method: http.MethodGet, Path: "/v1/tree/jobs", Tag: tag,
		Summary: "List or find jobs",
	}, s.listJobs)
	add(s, endpoint{ID: "getJob", Method: http.MethodGet, Path: "/v1/tree/jobs/{path}", Tag: tag, Errors: []int{http.StatusNotFound},
		Summary: "Everything about one job but its history",
	}, s.getJob)
	add(s, endpoint{ID: "initTree", Method: http.MethodPost, Path: "/v1/tree/init", Tag: tag, Role: RoleOperate, Status: http.StatusNoContent,
		Summary: "Create the namespace if it does not exist",
	}, func(ctx context.Context, _ *noBody) (*done, error) { return &done{}, s.tree.Init(ctx) })
	add(s, endpoint{ID: "queueJob", Method: http.MethodPost, Path: "/v1/tree/jobs", Tag: tag, Role: RoleOperate,
		Errors:  []int{http.StatusNotFound, http.StatusConflict},
		Summary: "Queue a job, or one below each of several",
		Description: "A pending job is replaced, an ended one becomes pending again, and a held one is a conflict " +
			"unless requeue is set. name_template knows {{.Parent}} and {{.Child}} only.",
	}, s.queueJob)
	add(s, endpoint{ID: "queueJobs", Method: http.MethodPost, Path: "/v1/tree/batches", Tag: tag, Role: RoleOperate,
		Summary: "Queue many jobs",
		Description: fmt.Sprintf("At most %d. All are checked before any is queued; the answer counts the results. A job that looks for others finds those "+
			"before it; the order of the others does not matter. What waits for a refused job is refused. All together make at most as many jobs: "+
			"what would make more fails, and what was queued before it stays.", BatchMax),
	}, s.queueJobs)
	add(s, endpoint{ID: "clearTree", Whole: true, Method: http.MethodPost, Path: "/v1/tree/clear", Tag: tag, Role: RoleAdmin,
		Summary:     "Remove all jobs of the tree, with their history and results",
		Description: "With dry_run it only lists them. Other tasks of the namespace stay.",
	}, s.clearTree)
	s.registerLeases(tag)
}

// part returns the tree, or the subtree of a job.
func (s *Server) part(ctx context.Context, text string) (*tree.Forest, error) {
	var path tree.Path
	var err error
	if text != "" {
		if path, err = tree.ParsePath(text); err != nil {
			return nil, err
		}
	}
	forest, err := s.tree.Load(ctx)
	if err != nil || path == "" {
		return forest, err
	}
	if forest = forest.Subtree(path); forest.Len() == 0 {
		return nil, fmt.Errorf("job %s: %w", path, windlass.ErrNotFound)
	}
	return forest, nil
}

func (s *Server) listJobs(ctx context.Context, in *jobsInput) (*ok[[]tree.JobInfo], error) {
	if err := checkFilter("type", in.Types); err != nil {
		return nil, err
	}
	jobs, err := s.tree.Find(ctx, tree.Pattern{Name: in.Name, Type: in.Type})
	jobs = slices.DeleteFunc(jobs, func(j tree.JobInfo) bool {
		return len(in.Types) > 0 && !slices.Contains(in.Types, j.Type) ||
			in.State == "pending" && !j.Pending() || in.State == "working" && !j.Working() || in.State == "completed" && !j.Completed()
	})
	return answerWith(append([]tree.JobInfo{}, jobs...), err)
}

func (s *Server) getJob(ctx context.Context, in *jobInput) (*ok[view.Job], error) {
	path, err := tree.ParsePath(in.Path)
	if err != nil {
		return nil, err
	}
	job, err := s.tree.Get(ctx, path)
	if err != nil {
		return nil, err
	}
	task, err := s.client.Task(ctx, path.ID())
	if err != nil {
		return nil, err
	}
	progress, err := s.progress(ctx, path.ID())
	return answerWith(view.Job{JobInfo: job, Spec: task.Spec, State: task.State, Result: task.Result, Progress: progress}, err)
}

// request parses and checks a job to be queued.
func (s *Server) request(j view.QueueJob) (tree.Request, error) {
	r := j.Request()
	if j.NameTemplate != "" {
		name, err := nameTemplate(j.NameTemplate)
		if err != nil {
			return r, err
		}
		r.NameOf = name
	}
	if err := r.Validate(); err != nil || s.config.Check == nil {
		return r, err
	}
	return r, s.config.Check(windlass.Submission{ID: j.Name, Spec: j.Of(j.Type), Props: r.Data})
}

// nameTemplate parses a template of names. The command line's text/template could keep a
// server busy for ever.
func nameTemplate(text string) (func(parent, child string) string, error) {
	const parentName, childName = "{{.Parent}}", "{{.Child}}"
	if left := strings.NewReplacer(parentName, "", childName, "").Replace(text); strings.Contains(left, "{{") || strings.Contains(left, "}}") {
		return nil, badInput("name_template", shown(text), "may have "+parentName+" and "+childName+", and no other braces")
	}
	return func(parent, child string) string {
		return strings.NewReplacer(parentName, parent, childName, child).Replace(text)
	}, nil
}

type queueInput struct{ Sent view.QueueJob }

func (s *Server) queueJob(ctx context.Context, in *queueInput) (*ok[[]tree.Queued], error) {
	note(ctx, slog.String("name", in.Sent.Name), slog.String("type", in.Sent.Type), slog.String("parent", in.Sent.Parent))
	if under := in.Sent.Under; under != nil {
		note(ctx, slog.String("under_name", under.Name), slog.String("under_type", under.Type))
	}
	r, err := s.request(in.Sent)
	if err != nil {
		return nil, err
	}
	queued, err := s.tree.Queue(ctx, r)
	note(ctx, slog.Int("queued", len(queued)))
	if len(queued) > 0 && err != nil && !isOutage(err) {
		err = fmt.Errorf("%d job(s) were queued; but %w", len(queued), err)
	}
	return answerWith(append([]tree.Queued{}, queued...), err)
}

// placeOf says for the audit record where a job is queued.
func placeOf(j view.QueueJob) string {
	place := j.Name + "_" + j.Type
	switch {
	case j.Under != nil:
		return fmt.Sprintf("{%s_%s}/%s", j.Under.Name, j.Under.Type, place)
	case j.Parent != "":
		return j.Parent + "/" + place
	}
	return place
}

type queueManyInput struct{ Sent []view.QueueJob }

func (s *Server) queueJobs(ctx context.Context, in *queueManyInput) (*ok[view.Queued], error) {
	var first []string
	for _, line := range in.Sent[:min(len(in.Sent), firstMax)] {
		first = append(first, placeOf(line))
	}
	note(ctx, slog.Int("jobs", len(in.Sent)), slog.String("first", firstOf(first)))
	if n := len(in.Sent); n > BatchMax {
		return nil, badInput("body", fmt.Sprintf("%d jobs", n), fmt.Sprintf("must be at most %d", BatchMax))
	}
	requests := make([]tree.Request, len(in.Sent))
	for i, line := range in.Sent {
		var err error
		if requests[i], err = s.request(line); err != nil {
			return nil, inItem(i, err)
		}
	}
	queued, failed, err := s.tree.QueueInTurn(ctx, requests...)
	if err != nil {
		return nil, err
	}
	failed = view.CausesFirst(failed)
	sum := view.QueuedOf(queued, failed)
	if sum.Queued == 0 && sum.Failed > 0 && isOutage(failed[0]) {
		return nil, failed[0]
	}
	noteSum(ctx, slog.Int("queued", sum.Queued), sum.Failed)
	return &ok[view.Queued]{sum}, nil
}

type clearInput struct {
	Sent struct {
		DryRun bool `json:"dry_run" doc:"only list the jobs"`
	}
}

func (s *Server) clearTree(ctx context.Context, in *clearInput) (*ok[view.Cleared], error) {
	paths, err := s.tree.Clear(ctx, in.Sent.DryRun)
	cleared := view.ClearedOf(paths, in.Sent.DryRun)
	note(ctx, slog.Bool("dry_run", in.Sent.DryRun), slog.Int("jobs", len(paths)), slog.String("first", firstOf(cleared.Paths)))
	return answerWith(cleared, err)
}

type leaseInput struct {
	Sent struct {
		Type  string `json:"type" doc:"of the job"`
		Owner string `json:"owner" doc:"name of the holder, valid as a node's name but not one of a node"`
		Lease string `json:"lease,omitempty" doc:"for how long it is claimed, 5s to 300s; default 15s"`
	}
}

// endInput identifies a claim of a job.
type endInput struct {
	Path string `path:"path" doc:"path of the job with its slashes escaped as %2F, or the ID of its task"`
	Sent struct {
		Token int64 `json:"token" minimum:"1" doc:"of the claim"`
	}
}

type completeInput struct {
	Path string `path:"path" doc:"path of the job with its slashes escaped as %2F, or the ID of its task"`
	Sent struct {
		Token  int64           `json:"token" minimum:"1" doc:"of the claim"`
		Result json.RawMessage `json:"result,omitempty" doc:"of the job, to be kept: any JSON"`
	}
}

type failInput struct {
	Path string `path:"path" doc:"path of the job with its slashes escaped as %2F, or the ID of its task"`
	Sent struct {
		Token     int64  `json:"token" minimum:"1" doc:"of the claim"`
		Error     string `json:"error" minLength:"1" doc:"what went wrong"`
		Permanent bool   `json:"permanent,omitempty" doc:"whether not to retry"`
	}
}

// registerLeases registers the endpoints for workers that are not nodes.
func (s *Server) registerLeases(tag string) {
	add(s, endpoint{ID: "dequeueJob", Method: http.MethodPost, Path: "/v1/tree/dequeue", Tag: tag, Role: RoleOperate,
		Errors:  []int{http.StatusNotFound},
		Summary: "Claim the next job of a type for a time",
		Description: "The claim cannot be renewed: when the lease is over, others may take the job. If there is no job, that is a 404 with the code empty. " +
			"If the answer is lost, the job stays claimed until the lease is over.",
	}, func(ctx context.Context, in *leaseInput) (*ok[view.Leased], error) {
		var ttl time.Duration
		if text := in.Sent.Lease; text != "" {
			var err error
			if ttl, err = time.ParseDuration(text); err != nil {
				return nil, badInput("lease", shown(text), "must be a duration from 5s to 300s")
			}
		}
		note(ctx, slog.String("type", in.Sent.Type), slog.String("owner", in.Sent.Owner))
		d, err := s.leases.Dequeue(ctx, in.Sent.Type, in.Sent.Owner, ttl)
		note(ctx, slog.String("task", d.ID))
		return answerWith(view.LeasedOf(d), err)
	})
	ending := endpoint{Method: http.MethodPost, Tag: tag, Role: RoleOperate, Status: http.StatusNoContent,
		Errors:      []int{http.StatusConflict},
		Description: "A claim that is no longer held is a conflict: another holds the job, or it has ended."}
	ending.ID, ending.Path, ending.Summary = "completeJob", "/v1/tree/jobs/{path}/complete", "Complete a job that was dequeued"
	add(s, ending, func(ctx context.Context, in *completeInput) (*done, error) {
		result := in.Sent.Result
		if string(result) == "null" {
			result = nil
		}
		return endClaim(ctx, in.Path, in.Sent.Token, func(id string) error {
			return s.leases.Complete(ctx, id, in.Sent.Token, result)
		})
	})
	ending.ID, ending.Path, ending.Summary = "failJob", "/v1/tree/jobs/{path}/fail", "Report that a job that was dequeued has failed"
	add(s, ending, func(ctx context.Context, in *failInput) (*done, error) {
		failure := errors.New(in.Sent.Error)
		if in.Sent.Permanent {
			failure = windlass.Permanent(failure)
		}
		return endClaim(ctx, in.Path, in.Sent.Token, func(id string) error {
			return s.leases.Fail(ctx, id, in.Sent.Token, failure)
		})
	})
	ending.ID, ending.Path, ending.Summary = "releaseJob", "/v1/tree/jobs/{path}/release", "Give a job back that was dequeued"
	add(s, ending, func(ctx context.Context, in *endInput) (*done, error) {
		return endClaim(ctx, in.Path, in.Sent.Token, func(id string) error {
			return s.leases.Release(ctx, id, in.Sent.Token)
		})
	})
}

// endClaim calls end with the ID of a task: of a job by its path in either spelling, or of
// another task, which can be dequeued too.
func endClaim(ctx context.Context, text string, token int64, end func(id string) error) (*done, error) {
	id := text
	if path, err := tree.ParsePath(text); err == nil {
		id = path.ID()
	} else if strings.Contains(id, "/") {
		return nil, err
	}
	note(ctx, slog.String("task", id), slog.Int64("token", token))
	return &done{}, end(id)
}
