package loadgen

import (
	"context"
	"maps"
	"slices"
	"time"
)

// idlePhase looks at what running tasks cost when nothing happens.
func (b *bench) idlePhase(ctx context.Context) error {
	if err := b.calm(ctx); err != nil {
		return err
	}
	serverBefore, err := b.serverUsage(ctx)
	if err != nil {
		return err
	}
	b.progress("idle: looking for %v", b.IdleFor)
	began := time.Now()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(b.IdleFor):
	}
	if err := b.collect(ctx, askReport); err != nil {
		return err
	}
	took := time.Since(began)
	serverAfter, err := b.serverUsage(ctx)
	if err != nil {
		return err
	}
	b.reportCPU(took)
	if b.Server != nil {
		b.figure(PhaseIdle, "CPU of the broker, of one core", cpuPercent(serverAfter.CPU-serverBefore.CPU, took), unitPercent)
	}
	b.reportRequests()
	perTask := func(of func(Usage) int64) float64 {
		var total int64
		for _, m := range b.fleet.live() {
			total += of(m.report.Usage) - of(m.bare)
		}
		return float64(total) / float64(b.tasks.count) / 1000
	}
	b.figure(PhaseIdle, "resident memory for a task", perTask(func(u Usage) int64 { return u.Resident }), unitKilobytes)
	if err := b.collect(ctx, askCollected); err != nil {
		return err
	}
	b.figure(PhaseIdle, "the same, garbage returned", perTask(func(u Usage) int64 { return u.Resident }), unitKilobytes)
	b.figure(PhaseIdle, "heap and stacks for a task", perTask(func(u Usage) int64 { return u.Heap }), unitKilobytes)
	return nil
}

func (b *bench) collect(ctx context.Context, request string) error {
	return b.within(ctx, "the nodes to report", func(ctx context.Context) error { return b.fleet.collect(ctx, request) })
}

// serverUsage is nothing if the broker is not of this run.
func (b *bench) serverUsage(ctx context.Context) (u Usage, err error) {
	if b.Server == nil {
		return Usage{}, nil
	}
	err = b.within(ctx, "the broker's process to report", func(ctx context.Context) (err error) {
		u, err = b.Server.Usage(ctx)
		return err
	})
	return u, err
}

func cpuPercent(used, of time.Duration) float64 { return 100 * used.Seconds() / of.Seconds() }

func (b *bench) reportCPU(took time.Duration) {
	var all, most time.Duration
	live := b.fleet.live()
	for _, m := range live {
		used := m.report.CPU - m.mark.CPU
		all, most = all+used, max(most, used)
	}
	b.figure(PhaseIdle, "CPU of a node, of one core", cpuPercent(all, took)/float64(len(live)), unitPercent)
	b.figure(PhaseIdle, "CPU of the busiest node", cpuPercent(most, took), unitPercent)
}

// written waits until the nodes ask nothing more of the broker but renewals: what
// they write down about tasks follows when there is nothing else to do.
func (b *bench) written(ctx context.Context) error {
	return b.within(ctx, "the nodes to have written down what they did", func(ctx context.Context) error {
		for {
			if err := b.fleet.mark(ctx); err != nil {
				return err
			}
			select {
			case <-ctx.Done():
				return context.Cause(ctx)
			case <-time.After(quietFor):
			}
			if err := b.fleet.collect(ctx, askReport); err != nil {
				return err
			}
			if _, others := b.fleet.requests(); others == 0 {
				return nil
			}
		}
	})
}

// reportRequests reports what the nodes asked of the broker.
func (b *bench) reportRequests() {
	counts, total := b.fleet.requests()
	b.figure(PhaseIdle, "renewals of sessions", float64(counts[methodKeepAlive]), unitRequests)
	delete(counts, methodKeepAlive)
	b.figure(PhaseIdle, "other requests", float64(total), unitRequests)
	for _, method := range slices.Sorted(maps.Keys(counts)) {
		if counts[method] > 0 {
			b.figure(PhaseIdle, "of these "+method, float64(counts[method]), unitRequests)
		}
	}
}
