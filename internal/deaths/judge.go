package deaths

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/windlass-go/windlass/broker"
)

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
	chanceMost = 0.005
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
// ones, alone or with one that was not, and no other does nearly as well. Deaths count of nodes that
// are back, or were not heard of for a while. A task is convicted in one of two ways, and by no fewer deaths than its
// limit:
//
//   - By deaths soon after it was claimed, more than of any other. Suspects are tried apart, so
//     an innocent task goes with the culprit once or twice. Where nodes die at the same time for
//     another reason, such as somebody who kills them in turn, chance has to be no explanation.
//   - By deaths of any kind, once chance is no explanation. A task that has run for long is
//     lost with its node whatever the reason. So where nodes die for reasons that no task has,
//     some tasks are lost often: of thirty tasks on three nodes, one with the first three.
func (b *Book) Judge(d *Death, of Fleet, now time.Time) {
	deaths := b.others(d, now)
	looks := b.seenOf(d, of, deaths, now)
	culprit := b.alone(d, of, deaths, looks)
	if culprit == nil {
		culprit = b.ofTwo(d, of, deaths, looks)
	}
	if culprit != nil {
		d.Culprit, d.Count, d.Limit = culprit.task, culprit.died, culprit.limit
	}
}

// alone returns the task that explains a death and earlier ones by itself, nil if none does.
func (b *Book) alone(d *Death, of Fleet, deaths []*entry, all []seen) *suspect {
	suspects := make([]suspect, 0, len(all))
	for _, s := range all {
		suspects = append(suspects, s.suspect(of.Tasks, nil))
	}
	for i, s := range suspects {
		if soon, often := s.convicted(suspects); often || soon && !b.rivalled(s, d, of, deaths) {
			return &suspects[i]
		}
	}
	return nil
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
	all := b.others(&Death{}, now)
	for _, e := range b.deaths {
		by := b.explains(e.Culprit)
		if by == "" {
			continue
		}
		limits := Limits{Deaths: cmp.Or(e.Limit, CountDefault)}
		s := suspectOf(e.Culprit, limits, tasks, b.looks(e.Culprit, limits, all))
		if soon, often := s.convicted(nil); soon || often {
			continue
		}
		r := Refuted{Death: e.Death, Task: e.Culprit, Token: e.find(e.Culprit).Token, By: by}
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

// suspectOf counts the deaths of a task. How probable so many are is a binomial tail, bounded by its
// largest term. It is looked for in all deaths, and, as a task may have become dangerous at any time, in
// those since each of its own: the one half of what is tried is the whole, the other half all these
// (Bonferroni).
func suspectOf(task string, of Limits, tasks int, looks []look) suspect {
	s := suspect{task: task, limit: of.Deaths, chance: math.Inf(1), soon: math.Inf(1)}
	all, few := float64(max(tasks, tasksFew)), float64(max(tasks, recentFew))
	// Who asks for fewer deaths wants less evidence.
	odds, last, soon := math.Log(2*all), 0., math.Log(few)*float64(1-max(0, CountDefault-s.limit))
	without, alone := 0, true
	attempts := float64(len(looks))
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
			s.chance = min(s.chance, math.Exp(odds+logChoose(s.died+without-1, without))*attempts)
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
