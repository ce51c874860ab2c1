package tree

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/internal/keys"
)

// Limits of a tree. Input over a limit is refused with an error that names it.
const (
	// DepthMax limits the levels of the tree. In addition, the path of a job is at most
	// 512 bytes long.
	DepthMax = windlass.JobDepthMax
	// ChildrenMax limits the children of one job.
	ChildrenMax = 10_000
	// QueueMax limits the jobs that one call of Queue makes.
	QueueMax = windlass.SubmitBatchMax
)

// ErrNoMatch: no job of the tree matches the pattern under which jobs were to be
// queued.
var ErrNoMatch = errors.New("no job matches")

// Request is a job to queue, or one to queue below each of several jobs.
type Request struct {
	// Name and Type of the job, without spaces, slashes, backslashes and vertical bars;
	// a type has no underscore either. Together they are unique among the children of
	// one job.
	Name, Type string
	// Data becomes the properties of the job's task, for its handler: see
	// windlass.Submission.Props.
	Data json.RawMessage
	// Parent is the job to queue it under. Empty means the root, unless Under is set.
	Parent Path
	// Under queues one job under every job of the tree that matches when Queue is
	// called, at any level; never under one that the call makes.
	Under *Pattern
	// NameOf makes the name of each job from that of its parent and Name, for Parent
	// and Under. Nil keeps Name.
	NameOf func(parent, child string) string
	// Spec has the other settings of the job's task: priority, needs, the effect of its
	// failure on those below it, and so on. Queue sets Type and Job; Needs are IDs of
	// tasks, or paths of jobs.
	Spec windlass.Spec
	// Requeue queues a job that is held again once its run has ended. Without it, that
	// is refused with windlass.ErrWorking.
	Requeue bool
	// Cascade also queues the ended jobs below again. Without it, they stay completed.
	Cascade bool
}

// Queued is a job that was queued.
type Queued struct {
	Path Path   `json:"path"`
	ID   string `json:"id"`
	// Effect is the outcome: the job was created; it was pending and was replaced; it
	// had ended and is pending again; or it is held and runs again afterwards.
	Effect windlass.Effect `json:"effect"`
	// Needs lists the IDs of the tasks that it waits for, in addition to its ancestors.
	Needs []string `json:"-"`
}

// Queue makes jobs pending: new jobs, pending ones with the new data, and ended ones
// again. None of them runs before what it waits for, in whatever order they are given; a
// job that waits for a refused one of the call is refused with windlass.ErrUnmetNeed. Queue
// returns what it queued, also with an error: otherwise requests are independent of each
// other, and so are the jobs of one. A request that finds no parent is ErrNoMatch; a
// *windlass.BadInputError anywhere refuses the whole call. The order of jobs that are
// queued in one call at the same priority is unspecified.
func (t *Tree) Queue(ctx context.Context, requests ...Request) ([]Queued, error) {
	queued, failed, err := t.queue(ctx, requests, t.queueMax)
	return queued, cmp.Or(err, errors.Join(failed...))
}

// queue queues at most so many jobs. It returns what it queued, an error for each job or request that failed,
// and one error if it has done nothing.
func (t *Tree) queue(ctx context.Context, requests []Request, most int) (queued []Queued, failed []error, err error) {
	plans := make([]plan, len(requests))
	patterns := false
	for i, r := range requests {
		if err := plans[i].read(r); err != nil {
			return nil, nil, err
		}
		patterns = patterns || r.Under != nil || r.Cascade
	}
	var records map[Path]windlass.JobRecord
	if patterns {
		var err error
		if records, _, err = t.records(ctx); err != nil {
			return nil, nil, fmt.Errorf("queue: %w", err)
		}
	}
	submissions := make([]windlass.Submission, 0, len(plans)) // with patterns, more
	cascading := map[Path]bool{}
	for i := range plans {
		before := len(submissions)
		made, err := plans[i].submissions(submissions, records)
		if errors.Is(err, ErrNoMatch) {
			failed = append(failed, err)
			continue
		} else if err != nil {
			return nil, nil, err
		}
		if n := len(made); n > most {
			return nil, nil, &windlass.BadInputError{Field: "jobs", Value: fmt.Sprintf("%d or more", t.queueMax-most+n), Limit: fmt.Sprintf("must be at most %d in one call", t.queueMax)}
		}
		submissions = made
		for _, s := range made[before:] {
			cascading[pathOf(s.ID)] = cascading[pathOf(s.ID)] || requests[i].Cascade
		}
	}
	if err := t.countChildren(ctx, submissions); err != nil {
		return nil, nil, err
	}
	queued, wrong := t.enqueue(ctx, submissions, below(records, cascading))
	return queued, append(failed, wrong...), nil
}

// plan is a validated request.
type plan struct {
	Request
	under *matcher
}

func (p *plan) read(r Request) error {
	p.Request = r
	if err := cmp.Or(keys.CheckJobName(r.Name), keys.CheckJobType(r.Type)); err != nil {
		return err
	}
	switch {
	case r.Under != nil && r.Parent != "":
		return &windlass.BadInputError{Field: "parent", Value: string(r.Parent), Limit: "must be empty where a pattern is given"}
	case r.NameOf != nil && r.Under == nil && r.Parent == "":
		return &windlass.BadInputError{Field: "name function", Value: r.Name, Limit: "needs a parent, or a pattern"}
	case r.Spec.Type != "" && r.Spec.Type != r.Type:
		return &windlass.BadInputError{Field: "type", Value: r.Spec.Type, Limit: fmt.Sprintf("must be empty or %q, the type of the job", r.Type)}
	}
	if r.Parent != "" {
		var err error
		p.Parent, err = ParsePath(string(r.Parent))
		if bad, is := errors.AsType[*windlass.BadInputError](err); is {
			bad.Field = "parent path"
		}
		if err != nil {
			return err
		}
	}
	if r.Under != nil {
		var err error
		if p.under, err = r.Under.compile("parent"); err != nil {
			return err
		}
	}
	p.Spec.Type, p.Spec.Job = r.Type, true
	p.Spec.Needs = make([]string, 0, len(r.Spec.Needs))
	for _, need := range r.Spec.Needs {
		if strings.Contains(need, pathSeparator) {
			job, all := strings.CutSuffix(need, pathSeparator+"*")
			path, err := ParsePath(job)
			if err != nil {
				return &windlass.BadInputError{Field: "needs", Value: need, Limit: err.Error()}
			}
			if need = path.ID(); all {
				need = path.All()
			}
		}
		p.Spec.Needs = append(p.Spec.Needs, need)
	}
	return nil
}

// Validate returns the error with which Queue would refuse the request whatever jobs
// there are. The names that NameOf makes for Under are not known before.
func (r Request) Validate() error {
	var p plan
	if err := p.read(r); err != nil {
		return err
	}
	if p.under != nil { // the parents are not known yet, but the job is
		p.under, p.NameOf = nil, nil
	}
	_, err := p.submission(p.Parent)
	return err
}

// submissions adds the tasks of a request to those that were made before.
func (p *plan) submissions(made []windlass.Submission, records map[Path]windlass.JobRecord) ([]windlass.Submission, error) {
	parents := []Path{p.Parent}
	if p.under != nil {
		parents = parents[:0]
		for path := range records {
			if p.under.matches(path.Name(), path.Type()) {
				parents = append(parents, path)
			}
		}
		slices.SortFunc(parents, comparePaths)
		if len(parents) == 0 {
			return nil, fmt.Errorf("queue %s under name %q and type %q: %w",
				keys.JobSegment(p.Name, p.Type), p.Under.Name, p.Under.Type, ErrNoMatch)
		}
	}
	for _, parent := range parents {
		s, err := p.submission(parent)
		if err != nil {
			return nil, err
		}
		made = append(made, s)
	}
	return made, nil
}

// submission returns the one that the request makes under a parent.
func (p *plan) submission(parent Path) (s windlass.Submission, err error) {
	name := p.Name
	if p.NameOf != nil {
		name = p.NameOf(parent.Name(), p.Name)
		if err := keys.CheckJobName(name); err != nil {
			return s, &windlass.BadInputError{Field: "job name", Value: name,
				Limit: fmt.Sprintf("which the name function made of %q and %q: %v", parent.Name(), p.Name, err)}
		}
	}
	s = windlass.Submission{
		ID: parent.Child(name, p.Type).ID(), Spec: p.Spec, Props: p.Data, Rerun: true, Update: true, Requeue: p.Requeue,
	}
	return s, s.Validate()
}

// enqueue submits jobs, and with them jobs that are to run again if they have ended. It
// returns what was queued.
func (t *Tree) enqueue(ctx context.Context, submissions, again []windlass.Submission) (queued []Queued, failed []error) {
	all := slices.Concat(submissions, again)
	effects, errs := t.client.Enqueue(ctx, all)
	for i, s := range all {
		path := pathOf(s.ID)
		switch {
		case i >= len(submissions) && errors.Is(errs[i], windlass.ErrExists): // it has not ended
		case errors.Is(errs[i], windlass.ErrNoParent):
			failed = append(failed, fmt.Errorf("queue %s: %w: there is no %s in the tree", path, ErrNoMatch, path.Parent()))
		case errs[i] != nil:
			failed = append(failed, fmt.Errorf("queue %s: %w", path, errs[i]))
		default:
			queued = append(queued, Queued{Path: path, ID: s.ID, Effect: effects[i], Needs: s.Spec.Needs})
		}
	}
	return queued, failed
}

// below returns what has to be submitted so that the jobs below those that cascade run again.
// The keys of cascading are all jobs that are submitted, its values whether they cascade.
func below(records map[Path]windlass.JobRecord, cascading map[Path]bool) (again []windlass.Submission) {
	for path, r := range records {
		cascades := false
		for p := path.Parent(); p != "" && !cascades; p = p.Parent() {
			cascades = cascading[p]
		}
		if _, submitted := cascading[path]; cascades && !submitted {
			s := windlass.Submission{ID: path.ID(), Spec: r.Spec, Props: r.Data, Rerun: true}
			s.Spec.Type, s.Spec.Job = path.Type(), true
			again = append(again, s)
		}
	}
	slices.SortFunc(again, func(a, b windlass.Submission) int {
		pa, pb := pathOf(a.ID), pathOf(b.ID)
		return cmp.Or(cmp.Compare(pa.Depth(), pb.Depth()), comparePaths(pa, pb))
	})
	return again
}
