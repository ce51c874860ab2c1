package windlass

import (
	"math"
	"time"
)

// Bounds of what Config.Load says, in hundredths.
const (
	// OverloadedAt is from when on a node takes no more tasks.
	OverloadedAt = 90
	// RelievedAt is below what it takes them again.
	RelievedAt = 80
	// loadShown is the change that is worth telling others.
	loadShown = 5
)

// loadStep asks for the node's load from time to time, and tells the others.
func (in *incarnation) loadStep(now time.Time) {
	if in.config.Load == nil || in.closing || in.lost || now.Before(in.loadAt) {
		return
	}
	in.loadAt = now.Add(loadEvery)
	said := in.config.Load()
	if math.IsNaN(said) {
		return // that says nothing
	}
	load := int(min(max(said, 0), 1) * 100)
	overloaded := load >= OverloadedAt || (in.info.Overloaded && load >= RelievedAt)
	if changed := load - in.info.Load; overloaded == in.info.Overloaded && max(changed, -changed) < loadShown {
		return
	}
	relieved := in.info.Overloaded && !overloaded
	in.info.Load, in.info.Overloaded = load, overloaded
	in.out.publishInfo()
	if relieved {
		in.board.Reconsider()
	}
}

// lateStep tells the others how late this node hears of what they do, and which types it has
// found short-lived.
func (in *incarnation) lateStep(now time.Time) {
	if in.closing || in.lost {
		return
	}
	behind := ""
	if late := in.board.Lag.Told(now); late > 0 {
		behind = late.String()
	}
	if behind != in.info.Behind {
		in.info.Behind = behind
		in.out.publishInfo()
	}
	if types, changed := in.fleet.Named(now); changed {
		in.info.ShortLived = types
		in.out.publishInfo()
		in.board.LifetimesChanged(now)
	}
}
