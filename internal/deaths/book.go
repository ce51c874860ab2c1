package deaths

import (
	"cmp"
	"maps"
	"math"
	"math/bits"
	"slices"
	"time"

	"github.com/windlass-go/windlass/broker"
)

const (
	// spreadOver is the time within which all suspects of a death are started that are
	// suspected for the first time, and stepMax the longest time between two of them.
	spreadOver = 10 * time.Second
	stepMax    = 250 * time.Millisecond
	// returnWithin is how long suspects of three deaths wait for the node to come back, so
	// that the last death counts.
	returnWithin = 5 * time.Second
	// trialStep is how long the one that is suspected most runs alone before the next is
	// started. Each further step starts twice as many. With each further death a step
	// takes twice as long, up to trialStepMax.
	trialStep    = 3 * time.Second
	trialStepMax = 24 * time.Second
	// startedWithin is when all suspects of a death have been started.
	startedWithin = returnWithin + 8*trialStepMax // of lostMax, each step starts twice as many
	// ApartFor is how much longer a node leaves a suspect to others while it tries another
	// one of the same death. The other nodes take over what a node does not claim in half of
	// that time, even if they have their share already.
	ApartFor = 5 * time.Second
)

// Book has the deaths that count.
type Book struct {
	deaths []*entry // by when they were seen
	byTask map[string][]listing
}

// entry is a death and when this process saw it.
type entry struct {
	Death
	seen time.Time
	// place is its place among all.
	place int
	// latest is how long after it the last of its suspects may be started.
	latest time.Duration
	// culprits are the tasks that it lists and that are to blame for it or a later one.
	culprits []string
}

// listing is a place in a death's list of lost claims.
type listing struct {
	in    *entry
	token broker.Revision
	// recent is true for a claim that was granted shortly before the death; after is
	// then how long after the death the task may be started.
	recent bool
	after  time.Duration
}

// Set replaces the deaths by those that are recorded now. now is the time of those that
// were not there before, or for a list that begins a copy, the latest that it can be.
// created returns the revision at which a task was created, zero for none.
func (b *Book) Set(recorded []Death, begins bool, created func(task string) broker.Revision, now time.Time) {
	known := map[string]*entry{}
	for _, e := range b.deaths {
		known[e.Incarnation] = e
	}
	b.deaths, b.byTask = nil, map[string][]listing{}
	for _, d := range recorded {
		e := &entry{Death: d, seen: now}
		if was := known[d.Incarnation]; was != nil {
			e.seen = was.seen
		} else if begins && d.At.Before(now) {
			e.seen = d.At
		}
		if now.Sub(e.seen) < Window {
			b.deaths = append(b.deaths, e)
		}
	}
	slices.SortFunc(b.deaths, func(x, y *entry) int {
		return cmp.Or(x.seen.Compare(y.seen), cmp.Compare(x.Incarnation, y.Incarnation))
	})
	for i, e := range b.deaths {
		e.place = i
		for _, d := range b.deaths {
			if l := e.find(d.Culprit); l != nil && d.find(d.Culprit) != nil && l.Token <= d.find(d.Culprit).Token {
				e.culprits = append(e.culprits, d.Culprit)
			}
		}
		for i, l := range e.Lost {
			b.byTask[l.Task] = append(b.byTask[l.Task], listing{in: e, token: l.Token, recent: i < e.Recent})
		}
		if now.Sub(e.seen) < startedWithin {
			b.schedule(e, created)
		}
	}
}

// schedule decides how long after a death each of its suspects may be started.
func (b *Book) schedule(e *entry, created func(task string) broker.Revision) {
	var once, again []string
	suspicions := map[string]int{}
	for _, l := range e.Lost[:e.Recent] {
		n := b.suspicions(l.Task, created(l.Task), e.seen)
		if suspicions[l.Task] = n; n > 1 {
			again = append(again, l.Task)
		} else {
			once = append(once, l.Task)
		}
	}
	slices.SortStableFunc(again, func(x, y string) int { return suspicions[y] - suspicions[x] })
	var step, wait time.Duration
	if len(again) > 0 {
		step = min(trialStep<<min(suspicions[again[0]]-2, 8), trialStepMax)
		if suspicions[again[0]] >= CountDefault {
			wait = returnWithin
		}
	}
	start := func(task string, after time.Duration) {
		ls := b.byTask[task]
		ls[len(ls)-1].after, e.latest = after, max(e.latest, after)
	}
	for i, task := range again {
		start(task, wait+time.Duration(bits.Len(uint(i)))*step)
	}
	for i, task := range once {
		start(task, wait+step+time.Duration(i)*min(stepMax, spreadOver/time.Duration(len(once))))
	}
}

// counting yields the deaths by which a task, created at a revision, could be suspected:
// those of its claims that no other task explains.
func (b *Book) counting(task string, created broker.Revision, now time.Time) (ls []listing) {
	for _, l := range b.byTask[task] {
		if l.counts(task, created, now) {
			ls = append(ls, l)
		}
	}
	return ls
}

func (l listing) counts(task string, created broker.Revision, now time.Time) bool {
	return l.token > created && now.Sub(l.in.seen) < Window && !l.in.explained(task)
}

// counts reports whether a death is certain enough to blame a task for it.
func (e *entry) counts(now time.Time) bool { return e.Restarted || now.Sub(e.seen) >= unheardFor }

// suspicions returns how many deaths followed shortly after a claim of a task.
func (b *Book) suspicions(task string, created broker.Revision, now time.Time) (n int) {
	for _, l := range b.byTask[task] {
		if l.recent && l.counts(task, created, now) {
			n++
		}
	}
	return n
}

// explained reports whether a task other than the given one is to blame for a death.
func (e *entry) explained(except string) bool {
	return slices.ContainsFunc(e.culprits, func(task string) bool { return task != except })
}

// find returns the claim of a task that ended with the node, nil if there is none.
func (d *Death) find(task string) *Lost {
	if task == "" {
		return nil
	}
	if i := slices.IndexFunc(d.Lost, func(l Lost) bool { return l.Task == task }); i >= 0 {
		return &d.Lost[i]
	}
	return nil
}

// Blamed returns the death for which a task was blamed that was created at a revision,
// nil if it was not.
func (b *Book) Blamed(task string, created broker.Revision) *Death {
	for _, e := range slices.Backward(b.deaths) {
		if l := e.find(task); e.Culprit == task && l != nil && l.Token > created {
			return &e.Death
		}
	}
	return nil
}

// Deaths returns the deaths with which claims of a task ended, the latest first, unless
// another task explains them. Those of nodes that may be back are included.
func (b *Book) Deaths(task string, created broker.Revision, now time.Time) (deaths []Death) {
	for _, l := range slices.Backward(b.counting(task, created, now)) {
		deaths = append(deaths, l.in.Death)
	}
	return deaths
}

// Unexplained returns how often a node has died without a task to blame.
func (b *Book) Unexplained(node string) (n int) {
	for _, e := range b.deaths {
		if e.Node == node && !e.explained("") {
			n++
		}
	}
	return n
}

// Excess returns how much more often than half of the others a node has died without a task to
// blame. Where all die it is not the node: something goes round. nodes are those that are there,
// which counts those that died anyway.
func (b *Book) Excess(node string, nodes []string) int {
	died := map[string]int{}
	for _, other := range nodes {
		died[other] = 0
	}
	for _, e := range b.deaths {
		died[e.Node] += 0
		if !e.explained("") {
			died[e.Node]++
		}
	}
	n := died[node]
	delete(died, node)
	if len(died) == 0 {
		return n
	}
	return n - slices.Sorted(maps.Values(died))[len(died)/2]
}

// Excused reports whether a task is to blame for the latest death of a node.
func (b *Book) Excused(node string) bool {
	for _, e := range slices.Backward(b.deaths) {
		if e.Node == node {
			return e.explained("")
		}
	}
	return false
}

// Empty reports whether no death counts.
func (b *Book) Empty() bool { return len(b.deaths) == 0 }

// Losses returns how many claims of a task have ended with their nodes.
func (b *Book) Losses(task string) int { return len(b.byTask[task]) }

// OpenAt returns the time before which a suspect is not to be started, zero for a task
// that is none.
func (b *Book) OpenAt(task string, created broker.Revision, now time.Time) time.Time {
	ls := b.counting(task, created, now)
	if len(ls) == 0 || !ls[len(ls)-1].recent || b.Blamed(task, created) != nil {
		return time.Time{}
	}
	l := ls[len(ls)-1]
	return l.in.seen.Add(l.after)
}

// Rivals returns the other suspects of the last death of a task that has been suspected
// before. If one node tries them together and dies, they remain equally suspected.
func (b *Book) Rivals(task string, created broker.Revision, now time.Time) (others []string) {
	ls := b.counting(task, created, now)
	if len(ls) == 0 || !ls[len(ls)-1].recent || b.suspicions(task, created, now) < 2 {
		return nil
	}
	last := ls[len(ls)-1].in
	for _, l := range last.Lost[:last.Recent] {
		if l.Task != task {
			others = append(others, l.Task)
		}
	}
	return others
}

// StillUntil returns until when the suspects of the last deaths are tried, zero if there
// are none. ttl is how long it takes to notice another death. Nothing is moved until
// then: what moves would be interrupted, and lost with the next node as well. If the
// culprit is found, only the node that has died is given the time to come back.
func (b *Book) StillUntil(ttl time.Duration) (until time.Time) {
	for _, e := range b.deaths {
		if e.Recent == 0 {
			continue
		}
		at := e.seen.Add(trialStep)
		if !e.explained("") {
			at = at.Add(e.latest + ApartFor + ttl)
		}
		if at.After(until) {
			until = at
		}
	}
	return until
}

// Has reports whether the death of an incarnation is recorded.
func (b *Book) Has(incarnation string) bool {
	return slices.ContainsFunc(b.deaths, func(e *entry) bool { return e.Incarnation == incarnation })
}

// Culprit returns the task that is to blame for the death of an incarnation, empty if that is
// not known.
func (b *Book) Culprit(incarnation string) string {
	for _, e := range b.deaths {
		if e.Incarnation == incarnation {
			return e.Culprit
		}
	}
	return ""
}

// Suspects returns the tasks that the deaths list as suspects.
func (b *Book) Suspects() (tasks []string) {
	for _, e := range b.deaths {
		for _, l := range e.Lost[:e.Recent] {
			tasks = append(tasks, l.Task)
		}
	}
	return tasks
}

// Limits are what decides whether a task is set aside.
type Limits struct {
	// Created is the revision at which the task was created.
	Created broker.Revision
	// Deaths is how many deaths set it aside; zero or less means that no number does.
	Deaths int
}

// Fleet is what a Book has to know of the tasks to judge a death.
type Fleet struct {
	// Limits returns false for a task that has ended.
	Limits func(task string) (Limits, bool)
	// Tasks is how many there are.
	Tasks int
}

const (
	// chanceMost is up to how many innocent tasks would have died as often by chance for the
	// deaths to convict one, and likelier how much more probable that has to be of any other.
	chanceMost = 0.02
	likelier   = 5
	// soonMost is chanceMost for deaths soon after claims, in a row with one that lists the task
	// not, or not as claimed lately: then most of what runs was claimed lately.
	soonMost = 0.005
	// Deaths are in a row that follow each other within rowWithin. If they all list a task, each
	// but the first has a reason that is no task's with a probability of at most rowChance,
	// however many tasks the node held: what dies again and again is a sign that some task is to
	// blame. Where one does not, something else goes round, and dying soon is no sign.
	rowWithin = time.Minute
	rowChance = 1. / 3
	// tasksFew is the number of tasks from which on chance is judged by it. Where there are
	// fewer, all of them may die with every node. recentFew is that for deaths soon after claims.
	tasksFew, recentFew = 4, 8
)

// Judge names the culprit of a death, if one task that was lost with it explains it and earlier
// ones, and no other does nearly as well. Deaths count of nodes that are back, or were not
// heard of for a while. A task is convicted in one of two ways, and by no fewer deaths than its
// limit:
//
//   - By deaths soon after it was claimed, more than of any other. Suspects are tried apart, so
//     an innocent task goes with the culprit once or twice. Where nodes die at the same time for
//     another reason, such as somebody who kills them in turn, chance has to be no explanation.
//   - By deaths of any kind, once chance is no explanation. A task that has run for long is
//     lost with its node whatever the reason. So where nodes die for reasons that no task has,
//     some tasks are lost often: of thirty tasks on three nodes, one with the first three.
func (b *Book) Judge(d *Death, of Fleet, now time.Time) {
	deaths := b.before(d, now)
	var suspects []suspect
	for i, l := range d.Lost {
		if limits, ok := of.Limits(l.Task); ok && l.Token > limits.Created {
			suspects = append(suspects, b.suspect(d, i, limits, of.Tasks, deaths, now))
		}
	}
	for _, s := range suspects {
		if soon, often := s.convicted(suspects); often || soon && !b.rivalled(s, d, of, deaths) {
			d.Culprit, d.Count, d.Limit = s.task, s.died, s.limit
			return
		}
	}
}

// Refuted is a death whose culprit is not to blame, as it turned out.
type Refuted struct {
	// Death is the record as it should be, without a culprit.
	Death Death
	// Task was blamed, with its last claim under Token. By explains what convicted it.
	Task  string
	Token broker.Revision
	By    string
}

// Refuted returns the deaths whose culprits would not be blamed any more, given how many tasks
// there are: another task explains so much of what convicted them that too little is left.
func (b *Book) Refuted(tasks int, now time.Time) (refuted []Refuted) {
	for _, e := range b.deaths {
		by := b.explains(e.Culprit)
		if by == "" {
			continue
		}
		d := e.Death
		d.Restarted = e.counts(now) && !e.explained(d.Culprit)
		place := slices.IndexFunc(d.Lost, func(l Lost) bool { return l.Task == d.Culprit })
		s := b.suspect(&d, place, Limits{Deaths: cmp.Or(d.Limit, CountDefault)}, tasks, b.before(&d, now), now)
		if soon, often := s.convicted(nil); soon || often {
			continue
		}
		r := Refuted{Death: e.Death, Task: d.Culprit, Token: d.Lost[place].Token, By: by}
		r.Death.clear()
		refuted = append(refuted, r)
	}
	return refuted
}

// explains returns another task that is to blame for a death that lists one, empty for none.
func (b *Book) explains(task string) string {
	for _, l := range b.byTask[task] {
		for _, culprit := range l.in.culprits {
			if culprit != task {
				return culprit
			}
		}
	}
	return ""
}

// before returns the other deaths that count, the latest first.
func (b *Book) before(d *Death, now time.Time) (deaths []*entry) {
	for _, e := range slices.Backward(b.deaths) {
		if e.Incarnation != d.Incarnation && e.counts(now) && now.Sub(e.seen) < Window {
			deaths = append(deaths, e)
		}
	}
	return deaths
}

// suspect is a task that was lost with a death.
type suspect struct {
	task  string
	limit int
	// died is with how many nodes it has died, recent how many of these soon after it was
	// claimed.
	died, recent int
	// chance is how many tasks are expected to have died as often by chance, and soon how many
	// as often soon after they were claimed: infinite unless these deaths are as many as its limit,
	// and zero if all in their rows are such deaths.
	chance, soon float64
}

// convicted reports whether a task explains the deaths, and no other of the suspects does: those
// soon after it was claimed, or all.
func (s suspect) convicted(suspects []suspect) (soon, often bool) {
	if s.limit <= 0 || s.died < s.limit {
		return false, false
	}
	soon, often = s.soon <= soonMost, s.chance <= chanceMost
	for _, o := range suspects {
		if o.task == s.task {
			continue
		}
		soon = soon && s.recent > o.recent && o.chance*likelier > s.chance
		often = often && o.chance > s.chance*likelier
	}
	return soon, often
}

// look is what a death says of a suspect.
type look struct {
	*entry
	// listed is true if the task was lost, recent if it had just been claimed. unknown is true if
	// the list has not all that was lost.
	listed, recent, unknown bool
}

// looks returns what a death says of a task that was lost with it, and what those before say,
// the latest first, without those that another task explains.
func (b *Book) looks(d *Death, place int, of Limits, deaths []*entry, now time.Time) (looks []look) {
	task := d.Lost[place].Task
	looks = make([]look, 0, len(deaths)+1)
	if d.Restarted {
		looks = append(looks, look{entry: &entry{Death: *d, seen: now}, listed: true, recent: place < d.Recent})
	}
	listed := b.byTask[task]
	for _, e := range deaths {
		for len(listed) > 0 && listed[len(listed)-1].in.place > e.place {
			listed = listed[:len(listed)-1]
		}
		switch l := len(listed) - 1; {
		case e.explained(task):
		case l >= 0 && listed[l].in == e && listed[l].token > of.Created:
			looks = append(looks, look{entry: e, listed: true, recent: listed[l].recent})
		default:
			looks = append(looks, look{entry: e, unknown: e.Claims > len(e.Lost)})
		}
	}
	return looks
}

// suspect counts the deaths of a task that was lost with a death, and before. How probable so
// many are is a binomial tail, bounded by its largest term. It is looked for in all deaths, and,
// as a task may have become dangerous at any time, in those since each of its own: the one half
// of what is tried is the whole, the other half all these (Bonferroni).
func (b *Book) suspect(d *Death, place int, of Limits, tasks int, deaths []*entry, now time.Time) suspect {
	s := suspect{task: d.Lost[place].Task, limit: of.Deaths, chance: math.Inf(1), soon: math.Inf(1)}
	all, few := float64(max(tasks, tasksFew)), float64(max(tasks, recentFew))
	// Who asks for fewer deaths wants less evidence.
	odds, last, soon := math.Log(2*all), 0., math.Log(few)*float64(1-max(0, CountDefault-s.limit))
	without, alone := 0, true
	looks := b.looks(d, place, of, deaths, now)
	for len(looks) > 0 {
		row := rowOf(looks)
		looks = looks[len(row):]
		listed := !slices.ContainsFunc(row, func(l look) bool { return !l.listed })
		alone = alone && !slices.ContainsFunc(row, func(l look) bool { return !l.recent })
		for i, l := range row {
			if !l.listed {
				if !l.unknown {
					without++
				}
				continue
			}
			if s.died++; l.recent {
				s.recent++
				soon += math.Log(min(1, float64(l.Recent)/few))
			}
			switch {
			case s.recent < s.limit:
			case alone:
				s.soon = 0
			default:
				s.soon = min(s.soon, math.Exp(soon+logChoose(s.recent+without-1, without)))
			}
			if listed && i > 0 {
				odds += min(0, math.Log(rowChance)-last)
			}
			last = math.Log(min(1, float64(l.Claims)/all))
			odds += last
			s.chance = min(s.chance, math.Exp(odds+logChoose(s.died+without-1, without))*float64(len(deaths)+1))
		}
	}
	if s.died > 0 {
		s.chance = min(s.chance, math.Exp(odds+logChoose(s.died+without, without)))
	}
	return s
}

// rowOf returns the first deaths that follow each other within rowWithin.
func rowOf(looks []look) []look {
	n := 1
	for n < len(looks) && looks[n-1].seen.Sub(looks[n].seen) <= rowWithin {
		n++
	}
	return looks[:n]
}

// rivalled reports whether a task that was not lost with a death was suspected as often as one
// that dies soon after it was claimed, and went with that before: a death that has another reason would
// convict the one that is tried just then.
func (b *Book) rivalled(s suspect, d *Death, of Fleet, deaths []*entry) bool {
	counted := map[*entry]bool{}
	for _, e := range deaths {
		counted[e] = true
	}
	// recent returns in which of these deaths a task had just been claimed.
	recent := func(task string) (in []*entry) {
		limits, ok := of.Limits(task)
		for _, l := range b.byTask[task] {
			if ok && l.recent && l.token > limits.Created && counted[l.in] && !l.in.explained(task) {
				in = append(in, l.in)
			}
		}
		return in
	}
	with := map[string]int{} // how many of its deaths another task shares
	for _, e := range recent(s.task) {
		for _, l := range e.Lost[:e.Recent] {
			if d.find(l.Task) == nil {
				with[l.Task]++
			}
		}
	}
	for task, shared := range with {
		if s.recent-shared < s.limit && len(recent(task)) >= s.recent {
			return true
		}
	}
	return false
}

// logChoose is the logarithm of a binomial coefficient.
func logChoose(n, k int) float64 {
	of := func(n int) float64 { l, _ := math.Lgamma(float64(n + 1)); return l }
	return of(n) - of(k) - of(n-k)
}
