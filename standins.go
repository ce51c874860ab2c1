package windlass

import (
	"errors"
	"time"

	"github.com/windlass-go/windlass/coordinator"
)

// standIns are the claims on tasks that another node should have claimed by now. That
// it has not may be what a copy shows that is behind, and then every such claim is in
// vain, and costs those whose copies are the more for it. So each is a probe first, like
// the packets of a TCP connection that has just begun (RFC 5681, slow start): one may be
// under way, and one more for each that was granted, until one is refused.
type standIns struct {
	// window is how many may be under way, flying how many are.
	window, flying int
	// barred tells that there was no room for one.
	barred bool
}

// mayStandIn tells whether another claim in another node's stead may be made. None is
// made while the copy is known to be behind.
func (in *incarnation) mayStandIn() bool {
	in.standIns.barred = in.standIns.flying >= in.standIns.window || in.candidates.doubts > 0 || in.tasks.Revision() < in.late.newest
	return !in.standIns.barred
}

// standAgain has those looked at again for which there was no room, once there is: it
// means to look at all that others should claim.
func (in *incarnation) standAgain() {
	if in.standIns.barred && in.mayStandIn() {
		in.planning.sweepAt = time.Time{}
	}
}

// answered takes what the answer to a claim says about claims in others' stead. c is nil
// if an owner was asked about.
func (in *incarnation) answered(c *candidate, err error) {
	switch {
	case c == nil || !c.standIn:
	case err == nil:
		in.standIns.window++
	case isTaken(err):
		in.standIns.window = 1
	}
	in.standAgain()
}

// isTaken tells whether a claim was refused because the task is another's, or gone.
func isTaken(err error) bool {
	return errors.Is(err, coordinator.ErrOwned) || errors.Is(err, coordinator.ErrGone)
}
