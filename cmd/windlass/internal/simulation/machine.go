package simulation

import "time"

// machine is a virtual machine that its host may stop for a while, to copy or to move
// it. No clock of the machine shows the time that passes then, until its time of day is
// set.
type machine struct {
	// stopped is when its host stopped it; zero while it runs.
	stopped time.Time
	// unseen is how long it was stopped in all, unset the part of it that the time of
	// day does not include yet.
	unseen, unset time.Duration
}

func (m *machine) stop() { m.stopped = time.Now() }

func (m *machine) goOn() {
	stood := time.Since(m.stopped)
	m.stopped = time.Time{}
	m.unseen += stood
	m.unset += stood
}

// behind returns by how much its boot clock and its time of day are behind.
func (m *machine) behind(now time.Time) (boot, day time.Duration) {
	if m.stopped.IsZero() {
		return m.unseen, m.unset
	}
	stood := now.Sub(m.stopped)
	return m.unseen + stood, m.unset + stood
}

// dayMax limits how long after a machine resumed its time of day is set: by its host at
// once, or by a time service at its next check.
const dayMax = 3 * time.Second

// stopMachine stops the machine of a process and resumes it. In half of the cases the
// network is not back then, so that only the time of day shows the process that its
// session is over.
func (w *world) stopMachine(p *process) bool {
	if !p.halt() {
		return false
	}
	w.sleep(upTo(w.random, 2*w.profile.ttl))
	network := p.Thaw
	if w.random.IntN(2) == 0 {
		network = func() {}
	}
	p.mu.Lock()
	p.machine.goOn()
	p.mu.Unlock()
	p.goOn(network)
	w.sleep(upTo(w.random, dayMax))
	p.setDay()
	return true
}

// halt stops the machine and its process, unless that is already suspended.
func (p *process) halt() bool {
	p.mu.Lock()
	suspended := p.resumed != nil
	if !suspended {
		p.machine.stop()
	}
	p.mu.Unlock()
	p.suspend()
	return !suspended
}

// setDay corrects the time of day. Before that the process cannot know how much time has
// passed. So runs until then, and for the time that noticing it and killing may take,
// are no violation.
func (p *process) setDay() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.machine.unset = 0
	p.suspensions[len(p.suspensions)-1].to = time.Now().Add(p.timing.Slack * 3 / 2)
}
