package simulation

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/inspect"
	"github.com/windlass-go/windlass/internal/depend"
	"github.com/windlass-go/windlass/statemachine"
)

// jobPrefix begins the IDs of the jobs of trees, jobBar joins their levels.
const (
	jobPrefix = "j"
	jobBar    = "|"
)

// jobDepthMax limits the levels of a tree, jobsMax the jobs that are ever submitted,
// jobsOpenMax those of them that have not ended.
const (
	jobDepthMax = 5
	jobsMax     = 400
	jobsOpenMax = 40
)

// jobTypes are the types of jobs. Some nodes pull those of the last two instead of
// running handlers for them.
var jobTypes = []string{"a", "b", "p", "q"}

// jobs has the state that trees of jobs add to a run. Like states it has its own source
// of randomness.
type jobs struct {
	random *rand.Rand
	// order decides in which order the jobs of a call are given.
	order *rand.Rand
	// ids are the jobs in the order of their first submission. None waits for a later
	// one.
	ids []string
	// numbers counts the submissions. The data of each is its number.
	numbers int
	// accepted and refused have the numbers of the submissions that were acknowledged,
	// and that were refused permanently, by job.
	accepted, refused map[string][]int
	// together has, for the number of a submission, the numbers of those of its call that
	// it waits for, by job.
	together map[int]map[string]int
	// pullers are the goroutines that dequeue, and the scripts.
	pullers sync.WaitGroup
	// scripts counts the scripts that were started.
	scripts int
	// log is guarded by the world's logMu.
	log jobLog

	mu sync.Mutex
	// calm makes runs take less time, so that all of them end.
	calm bool
	// runs has those of handlers and of callers of Dequeue, by job.
	runs map[string][]*jobRun
}

func newJobs(seed uint64) *jobs {
	return &jobs{
		random: rand.New(rand.NewPCG(seed, 3)), order: rand.New(rand.NewPCG(seed, 71)), together: map[int]map[string]int{},
		accepted: map[string][]int{}, refused: map[string][]int{}, runs: map[string][]*jobRun{},
		log: jobLog{byID: map[string]*jobHistory{}, owners: map[string]broker.Revision{}},
	}
}

// setCalm sets whether runs take less time.
func (w *world) setCalm(calm bool) {
	if w.jobs == nil {
		return
	}
	w.jobs.mu.Lock()
	defer w.jobs.mu.Unlock()
	w.jobs.calm = calm
}

// jobData is the data of a job: the number of the submission.
type jobData struct {
	N int `json:"n"`
}

// treeOf returns the number of the tree of a job.
func treeOf(id string) (n int) {
	_, _ = fmt.Sscanf(id, jobPrefix+"%d", &n) // every ID has one
	return n
}

// spec draws the spec of a job. The jobs that it needs were submitted before, and are
// neither above nor below it. None is of a later tree, and of an earlier one it may need
// all, so that jobs that come below that later make no cycle.
func (j *jobs) spec(id string, before []string) windlass.Spec {
	s := windlass.Spec{Job: true, Type: id[strings.LastIndex(id, "_")+1:], Priority: j.random.IntN(3)}
	s.OnFailure = pick(j.random, "", windlass.FailureBlocks, windlass.FailureSkips, windlass.FailureSkips, windlass.FailureRuns)
	s.Retry = &windlass.Retry{Errors: 2 + j.random.IntN(3), Min: windlass.Duration(time.Second), Max: windlass.Duration(2 * time.Second)}
	for range max(j.random.IntN(6)-3, 0) {
		if len(before) == 0 {
			break
		}
		need := before[len(before)-1-j.random.IntN(min(len(before), 15))]
		if !strings.HasPrefix(id, need+jobBar) && !strings.HasPrefix(need, id+jobBar) && !slices.Contains(s.Needs, need) && treeOf(need) <= treeOf(id) {
			s.Needs = append(s.Needs, need)
		}
	}
	if n := hash("below " + id); n%6 == 0 && len(before) > 0 {
		need := before[int(n/6)%len(before)]
		if root, _, _ := strings.Cut(need, jobBar); treeOf(need) < treeOf(id) {
			s.Needs = append(s.Needs, depend.AllBelow(root))
		}
	}
	if j.random.IntN(15) == 0 {
		s.NotBefore = time.Now().Add(upTo(j.random, 10*time.Second))
	}
	return s
}

// newID draws the path of a new job: a root, or a child of a recent job.
func (j *jobs) newID() string {
	segment := fmt.Sprintf("%s%d_%s", jobPrefix, len(j.ids), jobTypes[j.random.IntN(len(jobTypes))])
	if len(j.ids) == 0 || j.random.IntN(4) == 0 {
		return segment
	}
	parent := j.ids[len(j.ids)-1-j.random.IntN(min(len(j.ids), 8))]
	if strings.Count(parent, jobBar) == jobDepthMax-1 {
		return segment
	}
	return parent + jobBar + segment
}

// commandJobs disturbs the jobs, or does nothing.
func (w *world) commandJobs() {
	if w.jobs == nil {
		return
	}
	j := w.jobs
	switch n := j.random.IntN(20); {
	case n < 7:
		w.submitTree()
	case n < 13:
		w.queueAgain()
	case n == 13:
		if id, ok := w.openJob(); ok && w.commandJob(id, statemachine.Kill) {
			w.count("job told to be killed")
		}
	case n == 14:
		if id, ok := w.openJob(); ok && w.commandJob(id, pick(j.random, statemachine.Release, statemachine.Run)) {
			w.count("job told to be released or run")
		}
	case n == 15 && j.random.IntN(3) == 0:
		w.deleteJob()
	case n == 16 && j.random.IntN(2) == 0:
		w.forgetJob()
	case n == 17:
		w.holdBack()
	case n == 18:
		w.startScript()
	}
}

// submitTree submits some new jobs in one call, most of them below others, in any order.
func (w *world) submitTree() {
	j := w.jobs
	if w.openJobs() > jobsOpenMax || len(j.ids) > jobsMax {
		return
	}
	var all []windlass.Submission
	for range 1 + j.random.IntN(6) {
		id := j.newID()
		all = append(all, j.submission(id, j.spec(id, j.ids)))
		j.ids = append(j.ids, id)
	}
	first := j.numbers - len(all) + 1
	for i, s := range all {
		j.together[first+i] = map[string]int{}
		for k, other := range all[:i] {
			if strings.HasPrefix(s.ID, other.ID+jobBar) || slices.Contains(s.Spec.Needs, other.ID) {
				j.together[first+i][other.ID] = first + k
			}
		}
	}
	j.order.Shuffle(len(all), func(i, k int) { all[i], all[k] = all[k], all[i] })
	w.enqueue(all)
}

// submission numbers a submission.
func (j *jobs) submission(id string, spec windlass.Spec) windlass.Submission {
	j.numbers++
	data, _ := json.Marshal(jobData{j.numbers}) // a number can always be encoded
	return windlass.Submission{ID: id, Spec: spec, Props: data}
}

// queueAgain submits an earlier job again, whatever its state.
func (w *world) queueAgain() {
	j := w.jobs
	if len(j.ids) == 0 || w.openJobs() > jobsOpenMax {
		return
	}
	i := len(j.ids) - 1 - j.random.IntN(min(len(j.ids), 30))
	if id, ok := w.failedJob(); ok && j.random.IntN(3) == 0 {
		i = slices.Index(j.ids, id)
	}
	if id, ok := w.openJob(); ok && j.random.IntN(2) == 0 {
		i = slices.Index(j.ids, id)
	}
	s := j.submission(j.ids[i], j.spec(j.ids[i], j.ids[:i]))
	s.Update, s.Rerun, s.Requeue = j.random.IntN(4) > 0, j.random.IntN(4) > 0, j.random.IntN(4) > 0
	w.enqueue([]windlass.Submission{s})
}

// enqueue submits jobs and records which submissions were acknowledged.
func (w *world) enqueue(all []windlass.Submission) {
	var effects []windlass.Effect
	var errs []error
	_ = w.attempt(func(ctx context.Context) error {
		effects, errs = w.client.Enqueue(ctx, all)
		return nil
	})
	for i, s := range all {
		var data jobData
		var wrong *windlass.BadInputError
		switch {
		case json.Unmarshal(s.Props, &data) != nil: // cannot be
		case errors.As(errs[i], &wrong):
			w.fail("Z03: %q is refused: %v", s.ID, errs[i])
		case errs[i] == nil:
			w.jobs.accepted[s.ID] = append(w.jobs.accepted[s.ID], data.N)
			w.count("job: " + string(effects[i]))
		case windlass.AlreadySubmitted(errs[i]):
		case errors.Is(errs[i], windlass.ErrExists), errors.Is(errs[i], windlass.ErrFinished), errors.Is(errs[i], windlass.ErrWorking):
			// ErrNoParent is not permanent: an earlier attempt, with the job above, may be late.
			w.jobs.refused[s.ID] = append(w.jobs.refused[s.ID], data.N)
			w.count("job: refused")
		}
	}
}

func (w *world) commandJob(id string, m statemachine.Message) bool {
	return w.attempt(func(ctx context.Context) error {
		_, err := w.client.SendTask(ctx, id, statemachine.Command{Message: m})
		return err
	}) == nil
}

func (w *world) deleteJob() {
	id, ok := w.openJob()
	if !ok {
		return
	}
	w.log.Deleting(id)
	if w.attempt(func(ctx context.Context) error { return w.client.Delete(ctx, id) }) == nil {
		w.count("job deleted")
	}
}

// forgetJob prunes a job that failed, and the ended jobs below it.
func (w *world) forgetJob() {
	id, ok := w.failedJob()
	if !ok {
		return
	}
	for _, below := range w.jobs.ids {
		if strings.HasPrefix(below, id) {
			w.log.Unblocking(below)
		}
	}
	err := w.attempt(func(ctx context.Context) error {
		_, err := w.client.Prune(ctx, windlass.Retention{Age: time.Millisecond, Unblock: true}, windlass.Filter{IDPrefix: id}, false)
		return err
	})
	if err == nil {
		w.count("job that failed forgotten")
	}
}

// holdBack requeues a job that runs, makes it wait for the one above it, and updates it
// while it waits.
func (w *world) holdBack() {
	j := w.jobs
	w.logMu.Lock()
	live := w.log.Live()
	w.logMu.Unlock()
	id, ok := w.someJob(func(id string, _ bool, _ statemachine.State) bool {
		return live[id] != 0 && strings.Contains(id, jobBar)
	})
	if !ok {
		return
	}
	above := id[:strings.LastIndex(id, jobBar)]
	queue := func(id string, change func(*windlass.Submission)) {
		i := slices.Index(j.ids, id)
		s := j.submission(id, j.spec(id, j.ids[:i]))
		change(&s)
		w.enqueue([]windlass.Submission{s})
	}
	queue(id, func(s *windlass.Submission) { s.Requeue = true })
	queue(above, func(s *windlass.Submission) { s.Rerun = true })
	if !w.commandJob(id, statemachine.Release) {
		return
	}
	w.sleep(500 * time.Millisecond)
	queue(id, func(s *windlass.Submission) { s.Update = true })
	w.count("job held back while it was to run again")
}

// someJob draws a job by its state in the log.
func (w *world) someJob(wanted func(id string, exists bool, state statemachine.State) bool) (string, bool) {
	w.logMu.Lock()
	defer w.logMu.Unlock()
	var some []string
	for _, id := range w.jobs.ids {
		if exists, state := w.log.Task(id); wanted(id, exists, state) {
			some = append(some, id)
		}
	}
	if len(some) == 0 {
		return "", false
	}
	return some[w.jobs.random.IntN(len(some))], true
}

func (w *world) openJob() (string, bool) {
	return w.someJob(func(_ string, exists bool, _ statemachine.State) bool { return exists })
}

func (w *world) failedJob() (string, bool) {
	return w.someJob(func(_ string, exists bool, s statemachine.State) bool {
		return !exists && (s == statemachine.Failed || s == statemachine.Killed)
	})
}

// openJobs counts the jobs that no permanent failure blocks.
func (w *world) openJobs() (n int) {
	w.logMu.Lock()
	defer w.logMu.Unlock()
	for _, id := range w.jobs.ids {
		if exists, _ := w.log.Task(id); exists && w.stands(id) == "" {
			n++
		}
	}
	return n
}

// stands returns the failed job that blocks a job permanently, empty for none. The
// caller holds logMu.
func (w *world) stands(id string) string {
	for _, b := range w.log.Blockers(id) {
		if b.Failed && !b.Skips && !b.Exists {
			return b.ID
		}
	}
	for _, b := range w.log.Blockers(id) {
		if b.Exists {
			if failed := w.stands(b.ID); failed != "" {
				return failed
			}
		}
	}
	return ""
}

// whyUnfinished returns the cluster's explanations for the jobs that have not ended.
func (w *world) whyUnfinished() (text string) {
	if w.unfinished() == "" {
		return ""
	}
	for _, id := range w.jobs.ids {
		if e, err := inspect.New(w.client).Explain(w.t.Context(), id); err == nil && !statemachine.State(e.Status).Terminal() {
			text += fmt.Sprintf("\n\t%+v, after the runs %v", e, w.runsOf(id))
		}
	}
	for _, p := range w.up {
		text += fmt.Sprintf("\n\t%s holds %+v, and runs at most %v", p.Name(), p.Tasks(), p.concurrency)
	}
	return text
}

// unfinished reports a job that should have ended and has not (Z06, Z08, Z11).
func (w *world) unfinished() string {
	if w.jobs == nil {
		return ""
	}
	w.logMu.Lock()
	defer w.logMu.Unlock()
	for _, id := range w.jobs.ids {
		if exists, _ := w.log.Task(id); !exists {
			continue
		}
		blockers := w.log.Blockers(id)
		for _, b := range blockers {
			if b.Skips && !b.Exists {
				return fmt.Sprintf("Z11: %q is to be killed, as %q failed and skips it", id, b.ID)
			}
		}
		if w.stands(id) == "" {
			return fmt.Sprintf("Z08: %q has not ended and waits for %+v", id, blockers)
		}
	}
	return ""
}
