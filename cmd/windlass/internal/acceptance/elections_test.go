//go:build e2e && linux

package acceptance

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

// locked is the leader's command. It holds an flock while it or its children live, so that
// two at once are noticed, and records its term.
const locked = `exec 9>lock
flock -n 9 || { echo "$WINDLASS_CANDIDATE" >>overlaps; exit 9; }
echo "$WINDLASS_CANDIDATE $WINDLASS_TERM" >>terms
trap "" TERM
sleep 1000000 &
wait
exec sleep 1000000`

// unlocked is the same without the lock, for tests in which two may overlap for a moment.
const unlocked = `echo "$WINDLASS_CANDIDATE $WINDLASS_TERM $$" >>terms
exec sleep 1000000`

// contest is an election with some candidates.
type contest struct {
	*fleet
	command    string
	candidates map[string]*process
}

func newContest(t *testing.T, command string, candidates ...string) *contest {
	t.Helper()
	c := &contest{fleet: newFleet(t), command: command, candidates: map[string]*process{}}
	for i, name := range candidates {
		c.stand(name)
		c.waitLine(i + 1)
	}
	return c
}

// stand starts a candidate.
func (c *contest) stand(name string) {
	c.t.Helper()
	c.candidates[name] = c.start(name, "elect", "e", "--candidate", name, "--session-ttl", ttl.String(), "--", "sh", "-c", c.command)
}

// line lists the candidates, the leader first.
func (c *contest) line() []string {
	c.t.Helper()
	var all []struct {
		Candidates []struct {
			Name string `json:"name"`
		} `json:"candidates"`
	}
	names := []string{}
	if c.list(&all, "election", "list") && len(all) > 0 {
		for _, candidate := range all[0].Candidates {
			names = append(names, candidate.Name)
		}
	}
	return names
}

func (c *contest) waitLine(n int) time.Time {
	c.t.Helper()
	return c.eventually(patience, func() string { return missing(len(c.line()), n, "candidates") })
}

// terms returns what the commands have recorded: a candidate and a token each.
func (c *contest) terms() [][]string {
	c.t.Helper()
	b, err := os.ReadFile(c.path("terms"))
	if err != nil && !os.IsNotExist(err) {
		c.t.Fatal(err)
	}
	var all [][]string
	for line := range strings.Lines(string(b)) {
		all = append(all, strings.Fields(line))
	}
	return all
}

// waitTerm waits for the term after n others, and returns its leader.
func (c *contest) waitTerm(n int) (leader string, at time.Time) {
	c.t.Helper()
	at = c.until(patience, fmt.Sprintf("the command has begun more than %d times", n), func() bool { return len(c.terms()) > n })
	terms := c.terms()
	return terms[len(terms)-1][0], at
}

// change does something to the leader, and waits for the term of another candidate.
func (c *contest) change(what string, do func(leader string, p *process) time.Time) {
	c.t.Helper()
	if old, next := c.upset(what, do); next == old && len(c.candidates) > 1 {
		c.t.Errorf("%s: %s leads again, before those in line", what, old)
	}
}

// upset is change in which the same candidate may lead again.
func (c *contest) upset(what string, do func(leader string, p *process) time.Time) (old, next string) {
	c.t.Helper()
	n := len(c.terms())
	old = c.terms()[n-1][0]
	began := do(old, c.candidates[old])
	next, at := c.waitTerm(n)
	c.took(what+" until the next one's command runs", began, at)
	return old, next
}

// noOverlap checks that no command found the lock taken, and that tokens rise.
func (c *contest) noOverlap() {
	c.t.Helper()
	if b, err := os.ReadFile(c.path("overlaps")); err == nil {
		c.t.Errorf("commands began while another one lived: %q", b)
	}
	last := int64(0)
	for _, term := range c.terms() {
		var token int64
		if _, err := fmt.Sscan(term[1], &token); err != nil || token <= last {
			c.t.Errorf("token %q after %d: %v", term[1], last, err)
		}
		last = token
	}
}

func TestElections_L07_L08_OneCommandRunsWhateverHappens(t *testing.T) {
	t.Parallel()
	c := newContest(t, locked, "a", "b", "c", "d")
	c.waitTerm(0)
	c.change("SIGKILL of the leader", func(name string, p *process) time.Time {
		at := c.kill(p)
		delete(c.candidates, name)
		c.stand(name)
		return at
	})
	c.waitLine(4)

	var frozen *process
	c.change("SIGSTOP of the leader", func(_ string, p *process) time.Time {
		frozen = p
		return c.signal(p, syscall.SIGSTOP)
	})
	c.waitLine(3) // its session has expired
	c.pass(time.Now(), 2*ttl)
	thawed := c.signal(frozen, syscall.SIGCONT)
	c.took("SIGCONT until it stands again", thawed, c.waitLine(4))

	c.change("election resign", func(string, *process) time.Time {
		at := time.Now()
		c.must("election", "resign", "e")
		return at
	})
	// All of them lose their places.
	c.upset("the broker's absence", func(string, *process) time.Time {
		killed := c.kill(c.broker)
		c.pass(killed, 2*ttl)
		for _, term := range c.running() {
			t.Errorf("the command of %s lives %v after the broker's end", term, time.Since(killed))
		}
		c.startBroker()
		return killed
	})
	c.waitLine(4)
	c.change("SIGTERM of the leader", func(name string, p *process) time.Time {
		at := c.signal(p, syscall.SIGTERM)
		delete(c.candidates, name)
		return at
	})
	c.waitLine(3)
	c.noOverlap()
	for name, p := range c.candidates {
		if !p.alive() {
			t.Errorf("candidate %s has exited", name)
		}
	}
}

// running returns the term whose command holds the lock, if one does.
func (c *contest) running() []string {
	c.t.Helper()
	lock, err := os.OpenFile(c.path("lock"), os.O_RDWR, 0)
	must(c.t, err)
	defer lock.Close() // which gives it back
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err == nil {
		return nil
	}
	terms := c.terms()
	return terms[len(terms)-1]
}

func TestElections_L04_AnEntryDeletedByHandEndsTheCommand(t *testing.T) {
	t.Parallel()
	c := newContest(t, unlocked, "a", "b")
	c.waitTerm(0)
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{"unix://" + c.path("data", "windlass.sock")}, Logger: zap.NewNop(), DialTimeout: soon})
	must(t, err)
	defer client.Close()
	c.change("the deletion of the leader's entry", func(name string, _ *process) time.Time {
		at := time.Now()
		r, err := client.Delete(t.Context(), root+"elections/e/"+name)
		must(t, err)
		if r.Deleted != 1 {
			t.Fatalf("%d entries were deleted", r.Deleted)
		}
		return at
	})
	var first int
	_, err = fmt.Sscan(c.terms()[0][2], &first)
	must(t, err)
	c.until(soon, "the command of the first term has ended", func() bool { return syscall.Kill(first, 0) != nil })
	c.waitLine(2)
	if line := c.line(); !slices.Equal(line, []string{"b", "a"}) {
		t.Errorf("in line are %q", line)
	}
	c.noOverlap()
}

func TestElections_L07_WhoIsStoppedWhileItJoinsLeavesNothing(t *testing.T) {
	t.Parallel()
	c := newContest(t, locked, "leader")
	c.waitTerm(0)
	for i := range 20 {
		name := fmt.Sprintf("c%d", i)
		c.stand(name)
		c.pass(time.Now(), time.Duration(i)*10*time.Millisecond)
		c.signal(c.candidates[name], syscall.SIGTERM)
	}
	for i := range 20 {
		<-c.candidates[fmt.Sprintf("c%d", i)].done
	}
	if line := c.line(); !slices.Equal(line, []string{"leader"}) {
		t.Errorf("in line are %q", line)
	}
	c.noOverlap()
}

// systemd takes a service that SIGTERM has ended for one that was stopped, and an exit code of 130
// or 143 for a failure.
func TestElect_AProcessThatIsToldToStopEndsByThatSignal(t *testing.T) {
	t.Parallel()
	c := newContest(t, `exec sleep 1000000`, "leads", "waits")
	for name, sig := range map[string]syscall.Signal{"waits": syscall.SIGTERM, "leads": syscall.SIGINT} {
		p := c.candidates[name]
		c.signal(p, sig)
		c.until(soon, name+" has ended", func() bool { return !p.alive() })
		if how, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || how.Signal() != sig {
			t.Errorf("%s was told to stop by %v and ended with %v", name, sig, p.cmd.ProcessState)
		}
	}
}
