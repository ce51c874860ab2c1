package deaths

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/internal/keys"
	"github.com/windlass-go/windlass/internal/mirror"
)

var start = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)

// chronicle records deaths one after the other, as nodes do.
type chronicle struct {
	*testing.T
	Book
	deaths []Death
	now    time.Time
	token  broker.Revision
	// tasks is how many there are, 30 at first.
	tasks int
	// limits are those of tasks other than the default of 3; created says when a task was
	// submitted again, and gone that it has ended.
	limits  map[string]int
	created map[string]broker.Revision
	gone    map[string]bool
}

func newChronicle(t *testing.T) *chronicle {
	return &chronicle{T: t, now: start, tasks: 30, limits: map[string]int{}, created: map[string]broker.Revision{}, gone: map[string]bool{}}
}

// die records the death of a node that had claimed some tasks just before, the last one
// last, and others long before, and checks who is to blame.
func (c *chronicle) die(recent, old string, culprit string) {
	c.Helper()
	if got := c.dies(recent, old); got != culprit {
		c.Errorf("%q is blamed for the death of %s and %s, want %q", got, recent, old, culprit)
	}
}

// dies is die that returns who is to blame.
func (c *chronicle) dies(recent, old string) string {
	c.now = c.now.Add(time.Minute)
	var lost []Lost
	for _, id := range slices.Concat(strings.Fields(old), strings.Fields(recent)) {
		c.token++
		lost = append(lost, Lost{Task: id, Token: c.token})
	}
	since := c.token - broker.Revision(len(strings.Fields(recent)))
	d := Death{Node: "n", Incarnation: fmt.Sprint(len(c.deaths)), At: c.now, Restarted: true}
	d.list(lost, func(l Lost) bool { return l.Token > since })
	c.Judge(&d, Fleet{Tasks: c.tasks, Limits: func(id string) (Limits, bool) {
		limit := 3
		if l, ok := c.limits[id]; ok {
			limit = l
		}
		return Limits{Created: c.created[id], Deaths: limit}, !c.gone[id]
	}}, c.now)
	c.deaths = append(c.deaths, d)
	c.Set(c.deaths, false, func(id string) broker.Revision { return c.created[id] }, c.now)
	return d.Culprit
}

// opens checks how long after the last death tasks are open.
func (c *chronicle) opens(task string, want time.Duration) {
	c.Helper()
	at := c.OpenAt(task, c.created[task], c.now)
	if got := at.Sub(c.now); want < 0 && !at.IsZero() || want >= 0 && got != want {
		c.Errorf("%s is open %v after the death, want %v", task, got, want)
	}
}

// notHeldBack is what opens expects of a task that is not suspected.
const notHeldBack = -1

func TestJudge_O02_BlamesWhatHasDiedMostOftenOnceItHasReachedItsLimit(t *testing.T) {
	c := newChronicle(t)
	c.die("p a", "x", "")
	c.die("b p", "y", "")
	if got := c.Deaths("p", 0, c.now); len(got) != 2 || got[0].Incarnation != "1" {
		t.Errorf("%+v", got)
	}
	c.die("p", "x", "p")
	if d := c.Blamed("p", 0); d == nil || d.Count != 3 || c.Blamed("x", 0) != nil {
		t.Errorf("%+v", d)
	}
	// What it explains counts for no other.
	if got := c.Deaths("x", 0, c.now); got != nil || c.Losses("x") != 2 {
		t.Errorf("%+v", got)
	}
	c.die("x", "", "")
	c.created["p"] = c.token // it is submitted again
	if c.Blamed("p", c.created["p"]) != nil {
		t.Error("it is blamed although it was submitted again")
	}
	c.die("x p", "", "")
}

func TestJudge_O02_OneOfSeveralIsNotBlamedUntilTheyPart(t *testing.T) {
	c := newChronicle(t)
	for range 4 {
		c.die("a p", "", "")
	}
	c.die("p", "", "p")

	c = newChronicle(t) // nothing was claimed just before
	for range 4 {
		c.die("", "a p", "")
	}
	c.die("", "p b", "p")

	c = newChronicle(t) // both died as often, and one of them soon after it was claimed
	c.die("p", "a", "")
	c.die("p", "a", "")
	c.die("p", "a", "p")
}

// One was lost to an operator who killed its node, and twice beside the one that kills them.
func TestJudge_O02_ALossForAnotherReasonConvictsNobody(t *testing.T) {
	c := newChronicle(t)
	c.die("", "innocent other", "")
	c.die("killer innocent", "third", "")
	c.die("innocent killer", "", "")
	c.die("killer", "", "killer")
}

// What goes round through all nodes takes some tasks along that have just moved.
func TestJudge_O02_WhoWasThereAtSomeOfManyDeathsIsNotToBlame(t *testing.T) {
	c := newChronicle(t)
	c.tasks = 6 // on three nodes
	c.die("", "rides a b", "")
	for range 6 {
		c.die("x", "y", "")
		c.die("rides", "z", "")
	}
}

// A node dies for another reason while one is tried there that went with the culprit before.
func TestJudge_O02_WhoIsTriedWhileANodeDiesForAnotherReasonIsNotToBlame(t *testing.T) {
	c := newChronicle(t)
	c.tasks = 100
	c.die("killer innocent other", "a b c d e f g h i j k l m n", "")
	c.die("killer innocent other", "o p q r s t u v w x y z 1 2", "")
	c.die("killer other", "a c d e g h i j k l m n w x z", "")
	c.die("innocent", "o p q t u v y 1 2 3 4 5 6 7 8", "")
	c.die("killer", "b c e f g r t v w 9", "killer")
}

// Nodes die again and again. One task was there each time, or nearly: then something else goes
// round as well, and it tells nothing that they die so soon.
func TestJudge_O02_ThatDeathsFollowEachOtherTellsNothingIfOneHasAnotherReason(t *testing.T) {
	with := []string{"a b", "c d", "e a", "b c", "d e"}
	c := newChronicle(t)
	c.tasks = 6 // of which each node holds half
	for i := range 7 {
		c.die("", "x "+with[i%5], "")
	}
	c.die("", "x c d", "x")

	c = newChronicle(t)
	c.tasks = 6
	c.die("", "a c e", "")
	for i := range 11 {
		c.die("", "x "+with[i%5], "")
	}
}

// Somebody kills all nodes in turn. What was claimed a moment ago on each was so by chance.
func TestJudge_O02_WhoMovesAlongWithAKillerOfNodesIsNotToBlame(t *testing.T) {
	c := newChronicle(t)
	c.die("", "x a b c d e f g", "")
	c.die("x a b c d", "h i j", "")
	c.die("x a b", "c d k", "")
	c.die("x a", "l m n", "")
	c.die("x", "b c", "x") // but all four times, and at last alone

	for name, quiet := range map[string]time.Duration{"": 0, "in part": 0, "long before": rowWithin} {
		c = newChronicle(t)
		c.die("", "a b c", "")
		if name == "in part" { // what was lost with the first is not all known
			c.deaths[0].Claims++
		}
		c.now = c.now.Add(quiet)
		c.die("x a b c d", "", "")
		c.die("x a b", "", "")
		c.die("x d", "", map[bool]string{true: "x"}[name == "long before"])
	}
}

// One that takes long was suspected once, beside another. That is no reason not to see that it
// dies each time.
func TestJudge_O02_ThatAnotherWasSuspectedAsOftenClearsNobodyWhoDiesEachTime(t *testing.T) {
	c := newChronicle(t)
	c.die("x rival", "", "")
	for i := range 5 {
		c.die("", "x "+[]string{"a b c d e", "f g h i j"}[i%2], map[int]string{4: "x"}[i])
	}
}

func TestAcquit_O02_WhatDidNotRunIsNoneOfTheClaims(t *testing.T) {
	d := Death{Claims: 4, Lost: []Lost{{Task: "a"}, {Task: "b"}, {Task: "c"}}, Recent: 2, Culprit: "b", Count: 3, Limit: 3}
	d.Acquit(func(l Lost) bool { return l.Task == "b" })
	if d.Claims != 3 || len(d.Lost) != 2 || d.Recent != 1 || d.Culprit != "" || d.Count != 0 {
		t.Errorf("%+v", d)
	}
}

// Where most nodes die again and again, none of them is worse than the others.
func TestExcess_O03_IsWhatANodeHasDiedMoreOftenThanHalfOfTheOthers(t *testing.T) {
	c := newChronicle(t)
	died := func(nodes ...string) {
		for _, name := range nodes {
			c.die("", fmt.Sprint("t", len(c.deaths)), "")
			c.deaths[len(c.deaths)-1].Node = name
			c.now = c.now.Add(time.Minute)
		}
		c.Set(c.deaths, false, func(string) broker.Revision { return 0 }, c.now)
	}
	excess := func(node string, there string, want int) {
		t.Helper()
		if got := c.Excess(node, strings.Fields(there)); got != want {
			t.Errorf("%s has died %d times more often than others of %s, want %d", node, got, there, want)
		}
	}
	died("a", "a")
	excess("a", "a", 2)
	excess("a", "a b", 2)
	excess("b", "a b c", -2)
	died("b")
	excess("a", "a b", 1)
	excess("a", "a b c", 1)
	excess("a", "a b c d", 2)
	excess("a", "a c d", 2) // b is not back
	died("c")
	excess("a", "a", 1) // none of the others is back
	died("b", "c")
	excess("a", "a b c", 0)
	for i := range c.deaths {
		c.deaths[i].Culprit = c.deaths[i].Lost[0].Task
	}
	c.Set(c.deaths, false, func(string) broker.Revision { return 0 }, c.now)
	excess("a", "a b c", 0)
}

// refuted checks which tasks were blamed wrongly, and forgets that they were.
func (c *chronicle) refuted(want string) {
	c.Helper()
	var got []string
	for _, r := range c.Refuted(c.tasks, c.now) {
		got = append(got, r.Task+" by "+r.By)
		for i := range c.deaths {
			if c.deaths[i].Incarnation == r.Death.Incarnation {
				c.deaths[i] = r.Death
			}
		}
	}
	if strings.Join(got, ", ") != want {
		c.Errorf("refuted is %q, want %q", got, want)
	}
	c.Set(c.deaths, false, func(id string) broker.Revision { return c.created[id] }, c.now)
}

func TestRefuted_O02_WhatAnotherExplainsConvictsNoMore(t *testing.T) {
	c := newChronicle(t)
	c.die("killer innocent", "", "")
	c.die("killer innocent", "", "")
	c.die("innocent", "", "innocent") // for another reason
	c.gone["innocent"] = true
	c.refuted("")
	c.die("killer", "", "")
	c.die("killer", "", "")
	c.refuted("")
	c.die("killer", "", "killer")
	c.refuted("innocent by killer")
	if c.deaths[2].Culprit != "" || c.Blamed("killer", 0) == nil || c.Blamed("innocent", 0) != nil {
		t.Errorf("%+v", c.deaths)
	}
	c.refuted("")

	c = newChronicle(t) // each has deaths enough of its own
	for range 3 {
		c.die("p", "", map[int]string{2: "p"}[len(c.deaths)])
	}
	c.die("p q", "", "p")
	for range 3 {
		c.die("q", "", map[int]string{6: "q"}[len(c.deaths)])
	}
	c.refuted("")

	c = newChronicle(t) // it was run again, and was blamed rightly
	c.die("killer innocent", "", "")
	c.die("killer innocent", "", "")
	c.die("innocent", "", "innocent")
	c.created["innocent"] = c.token
	for range 3 {
		c.die("innocent", "", map[int]string{5: "innocent"}[len(c.deaths)])
	}
	for range 3 {
		c.die("killer", "", map[int]string{8: "killer"}[len(c.deaths)])
	}
	c.refuted("")
	if c.Blamed("innocent", c.created["innocent"]) == nil {
		t.Error("it is not blamed any more")
	}

	c = newChronicle(t) // what it was blamed for counts for the other again
	c.die("killer innocent", "", "")
	c.die("killer innocent", "", "")
	c.die("innocent killer", "", "")
	c.deaths[2].Culprit, c.deaths[2].Count = "innocent", 3 // by a node that judged otherwise
	c.gone["innocent"] = true
	c.Set(c.deaths, false, func(string) broker.Revision { return 0 }, c.now)
	for range 3 {
		c.die("killer", "", map[int]string{5: "killer"}[len(c.deaths)])
	}
	c.refuted("innocent by killer")
	if got := c.Deaths("killer", 0, c.now); len(got) != 6 {
		t.Errorf("%d deaths count", len(got))
	}
}

func TestJudge_O02_LimitsEndsAndTime(t *testing.T) {
	c := newChronicle(t)
	c.limits["p"], c.limits["q"] = 1, 0
	c.die("p q", "", "")
	c.die("q", "", "")
	c.die("q a", "", "")
	c.die("q", "", "")
	c.die("p", "", "p")
	c.gone["p"] = true
	c.die("p", "", "")

	c = newChronicle(t)
	c.die("p", "", "")
	c.die("p", "", "")
	c.now = c.now.Add(Window)
	c.die("p", "", "")
	if got := c.Deaths("p", 0, c.now); len(got) != 1 {
		t.Errorf("%d deaths count", len(got))
	}
}

func TestJudge_O02_ANodeThatMayBeBackDoesNotCount(t *testing.T) {
	c := newChronicle(t)
	for range 3 {
		c.die("p", "", "")
		c.deaths[len(c.deaths)-1].Restarted = false
		c.Set(c.deaths, false, func(string) broker.Revision { return 0 }, c.now)
		c.now = c.now.Add(-45 * time.Second) // of the minute that it takes
	}
	c.die("p", "", "")
	c.now = c.now.Add(unheardFor)
	c.die("p", "", "p")
}

func TestOpenAt_O02_TheMostSuspectedFirstAndTheOthersOneByOne(t *testing.T) {
	c := newChronicle(t)
	c.die("a b c", "old", "")
	c.opens("c", 0)
	c.opens("b", stepMax)
	c.opens("a", 2*stepMax)
	c.opens("old", notHeldBack)
	c.opens("unknown", notHeldBack)
	if at, want := c.StillUntil(time.Minute), c.now.Add(2*stepMax+ApartFor+trialStep+time.Minute); !at.Equal(want) {
		t.Errorf("tasks stay until %v, want %v", at, want)
	}

	c.die("d a b c e", "", "")
	for i, id := range []string{"c", "b", "a"} { // the third starts when the fourth would
		c.opens(id, []time.Duration{0, trialStep, 2 * trialStep}[i])
	}
	c.opens("e", trialStep)
	c.opens("d", trialStep+stepMax)

	c.die("a b", "", "") // each further death makes a step twice as long
	c.opens("b", returnWithin)
	c.opens("a", returnWithin+2*trialStep)
	c.die("b", "", "b")
	for _, id := range []string{"a", "b"} {
		c.opens(id, notHeldBack)
	}
	if at := c.StillUntil(time.Minute); !at.Equal(c.now.Add(trialStep)) {
		t.Errorf("with the culprit found tasks stay until %v", at)
	}
}

func TestRivals_O02_AreTheOtherSuspectsOfOneThatIsSuspectedAgain(t *testing.T) {
	c := newChronicle(t)
	rivals := func(task, want string) {
		t.Helper()
		if got := strings.Join(c.Rivals(task, 0, c.now), " "); got != want {
			t.Errorf("the rivals of %s are %q, want %q", task, got, want)
		}
	}
	c.die("p q a", "old", "")
	rivals("p", "") // many may have been claimed at once, and most have nothing to do with it
	c.die("p q", "a", "")
	rivals("p", "q")
	rivals("q", "p")
	rivals("a", "") // it ran for longer
	rivals("old", "")
	c.die("p", "", "p")
	rivals("q", "") // p explains it
}

func TestOpenAt_O02_VeryManyAreAllOpenWithinTenSeconds(t *testing.T) {
	c := newChronicle(t)
	var ids []string
	for i := range 3 * lostMax {
		ids = append(ids, fmt.Sprintf("t%04d", i))
	}
	c.die(strings.Join(ids, " "), "", "")
	if d := c.deaths[0]; d.Claims != len(ids) || len(d.Lost) != lostMax || d.Recent != lostMax || d.Lost[0].Task != ids[len(ids)-1] {
		t.Errorf("%d claims, %d listed, %d recent", d.Claims, len(d.Lost), d.Recent)
	}
	for _, id := range ids {
		if at := c.OpenAt(id, 0, c.now); at.After(c.now.Add(spreadOver)) {
			t.Fatalf("%s is open %v after the death", id, at.Sub(c.now))
		}
	}
	d := Death{}
	d.list([]Lost{{Task: strings.Repeat("x", lostBytesMax/2)}, {Task: strings.Repeat("y", lostBytesMax/2)}}, func(Lost) bool { return true })
	if len(d.Lost) != 1 || len(d.Encode()) > lostBytesMax {
		t.Errorf("a record lists %d long names", len(d.Lost))
	}
}

func TestSet_ARecordFromBeforeCountsFromItsTimeAndAnotherFromNow(t *testing.T) {
	var b Book
	none := func(string) broker.Revision { return 0 }
	d := Death{Incarnation: "1", At: start.Add(-time.Second), Lost: []Lost{{Task: "a", Token: 1}}, Recent: 1}
	b.Set([]Death{d}, true, none, start)
	if at := b.OpenAt("a", 0, start); !at.Equal(d.At) {
		t.Errorf("it is open at %v", at)
	}
	ahead := d
	ahead.At, ahead.Incarnation = start.Add(time.Hour), "2" // by a clock that is fast
	b.Set([]Death{d, ahead}, true, none, start)
	if at := b.OpenAt("a", 0, start); !at.Equal(start) || !b.Has("2") {
		t.Errorf("it is open at %v", at)
	}
	b.Set([]Death{d}, false, none, start.Add(time.Minute))
	if b.Has("2") || !slices.Equal(b.Suspects(), []string{"a"}) {
		t.Error("a record that was taken back stays")
	}
}

func TestParse_RefusesWhatIsNoRecord(t *testing.T) {
	for _, value := range []string{"", "x", "{}", `{"at":1}`} {
		if d, ok := Parse("n", "i", broker.KV{Value: []byte(value)}); ok {
			t.Errorf("%s is %+v", value, d)
		}
	}
	d, ok := Parse("n", "i", broker.KV{Value: []byte(`{"at":"2026-03-04T05:06:07Z","recent":7,"node":"other"}`)})
	if !ok || d.Node != "n" || d.Incarnation != "i" || d.Recent != 0 {
		t.Errorf("%+v, %v", d, ok)
	}
}

// stage is a node's copy of the tasks and its watcher.
type stage struct {
	*testing.T
	*Watcher
	space keys.Space
	tasks *mirror.Tasks
	now   time.Time
}

const watcherTTL = 5 * time.Second

func newStage(t *testing.T) *stage {
	space, err := keys.New("test")
	if err != nil {
		t.Fatal(err)
	}
	s := &stage{T: t, Watcher: NewWatcher(watcherTTL), space: space, now: start}
	s.tasks = mirror.NewTasks(space, mirror.Keep{Ended: s.Ended})
	return s
}

// shows applies changes at a revision: "task", "task=owner" for a claim in the session
// 7, "task>node" for a release to a node, "-task" for one that is gone, and "task!" for a
// claim that has ended.
func (s *stage) shows(revision broker.Revision, changes ...string) {
	var events []broker.Event
	add := func(deleted bool, key, value string, session broker.SessionID) {
		events = append(events, broker.Event{Deleted: deleted, KV: broker.KV{
			Key: key, Value: []byte(value), Created: revision, Modified: revision, Session: session,
		}})
	}
	for _, c := range changes {
		id := strings.FieldsFunc(c, func(r rune) bool { return strings.ContainsRune("=>-!", r) })
		switch {
		case c[0] == '-':
			add(true, s.space.Task(id[0]), "", 0)
			add(true, s.space.Owner(id[0]), "", 0)
		case strings.Contains(c, "="):
			add(false, s.space.Owner(id[0]), id[1], 7)
		case strings.Contains(c, ">"):
			add(true, s.space.Owner(id[0]), "", 0)
			add(false, s.space.Handover(id[0]), id[1], 7)
		case strings.HasSuffix(c, "!"):
			add(true, s.space.Owner(id[0]), "", 0)
		default:
			add(false, s.space.Task(id[0]), "", 0)
		}
	}
	s.tasks.Apply(broker.Batch{Events: events, Revision: revision})
	s.Shown(s.tasks, s.now)
}

// undecided checks until when a task is left alone.
func (s *stage) undecided(task string, shown broker.Revision, want time.Time) {
	s.Helper()
	if got := s.Undecided(task, shown, func(string) bool { return false }); !got.Equal(want) {
		s.Errorf("%s is undecided until %v, want %v", task, got.Sub(start), want.Sub(start))
	}
}

var dead = Gone{Name: "n", Incarnation: "i", Session: 7, At: 50, TTL: watcherTTL}

func TestWatcher_O02_ListsWhatEndedWithTheNode(t *testing.T) {
	s := newStage(t)
	s.shows(10, "old", "young", "released", "done")
	s.shows(11, "old=n")
	s.now = s.now.Add(time.Minute)
	s.shows(20, "young=n", "released=n", "done=n")
	s.now = s.now.Add(time.Second)
	s.shows(30, "released!")
	s.shows(31, "-done")
	s.now = s.now.Add(10 * time.Second)
	s.Gone(dead, s.now) // the copy of tasks shows it later
	if got := s.Died(s.tasks.Revision(), s.now); got != nil {
		t.Errorf("it is told before the claims are known: %+v", got)
	}
	s.shows(50, "old!", "young!")
	got := s.Died(s.tasks.Revision(), s.now)
	if len(got) != 1 || got[0].Node != "n" || got[0].Claims != 2 || got[0].Recent != 1 ||
		!slices.Equal(got[0].Lost, []Lost{{"young", 20}, {"old", 11}}) {
		t.Errorf("%+v", got)
	}
	if got := s.Died(s.tasks.Revision(), s.now); got != nil {
		t.Errorf("it is told twice: %+v", got)
	}
}

func TestWatcher_O02_LeavesAloneWhatMayHaveDiedWithItsNode(t *testing.T) {
	s := newStage(t)
	s.shows(10, "old", "young", "moved")
	s.shows(11, "old=n")
	s.now = s.now.Add(time.Minute)
	s.shows(20, "young=n", "moved=n")
	s.now = s.now.Add(time.Second)
	s.shows(50, "old!", "young!", "moved>b")
	s.undecided("old", 40, time.Time{})
	s.undecided("moved", 40, time.Time{})
	s.undecided("unknown", 40, time.Time{})
	s.undecided("young", 40, s.now.Add(shownWithin))
	s.undecided("young", 50, time.Time{}) // the copy of the nodes has nothing about it
	s.Gone(dead, s.now)
	s.undecided("young", 50, s.now.Add(recordedWithin))
	if at := s.Undecided("young", 50, func(string) bool { return true }); !at.IsZero() {
		t.Errorf("with the death recorded it is undecided until %v", at)
	}
	s.now = s.now.Add(2 * keptFor)
	s.shows(60)
	s.undecided("young", 40, time.Time{})
}

func TestWatcher_O02_ForANodeThatHasJustComeEveryClaimMayBeRecent(t *testing.T) {
	s := newStage(t)
	s.shows(40, "t", "t=n")
	s.now = s.now.Add(time.Second)
	s.shows(50, "t!")
	s.undecided("t", 40, s.now.Add(shownWithin))
	s.Gone(dead, s.now)
	if got := s.Died(50, s.now); len(got) != 1 || got[0].Claims != 1 || got[0].Recent != 1 {
		t.Errorf("%+v", got)
	}
}
