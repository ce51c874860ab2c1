package simulation

import "time"

// machine is a virtual machine that its host may stop for a while, as it does to
// copy or to move it. The time that passes then is seen by no clock of the machine,
// until something sets its time of day.
type machine struct {
	// stopped is when its host stopped it; zero while it runs.
	stopped time.Time
	// unseen is for how long it stood still in all, unset what of that the time of
	// day does not know yet.
	unseen, unset time.Duration
}

func (m *machine) stop() { m.stopped = time.Now() }

func (m *machine) goOn() {
	stood := time.Since(m.stopped)
	m.stopped = time.Time{}
	m.unseen += stood
	m.unset += stood
}

// behind is by how much its clocks are behind, Boot and the time of day.
func (m *machine) behind(now time.Time) (boot, day time.Duration) {
	if m.stopped.IsZero() {
		return m.unseen, m.unset
	}
	stood := now.Sub(m.stopped)
	return m.unseen + stood, m.unset + stood
}

// dayMax bounds how long after a machine went on its time of day is set: by its
// host at once, or by a time service when it looks next.
const dayMax = 3 * time.Second

// stopMachine has a host stop the machine of a process and let it go on. In every
// other case the network is not back when it does, so that nothing but the time of
// day tells the process that its session is over.
func (w *world) stopMachine(p *process) bool {
	if !p.halt() {
		return false
	}
	w.sleep(time.Duration(w.random.Int64N(int64(2 * w.profile.ttl))))
	network := p.Thaw
	if w.random.IntN(2) == 0 {
		network = func() {}
	}
	p.mu.Lock()
	p.machine.goOn()
	p.mu.Unlock()
	p.goOn(network)
	w.sleep(time.Duration(w.random.Int64N(int64(dayMax))))
	p.setDay()
	return true
}

// halt stops the machine, and with it the process, unless that is suspended.
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

// setDay sets the time of day right. Nobody could know of the time that passed
// before, so what ran until then, and for as long after as noticing it and killing
// may take, is not held against the process.
func (p *process) setDay() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.machine.unset = 0
	p.suspensions[len(p.suspensions)-1].to = time.Now().Add(p.timing.Slack * 3 / 2)
}
