package zookeeper

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"

	"github.com/windlass-go/windlass/broker/zookeeper/internal/wire"
)

// slotsDir holds the ring of records.
const slotsDir = ownDir + "/ring"

const (
	// slotsCount is the length of the ring. A watcher that is slower than so many
	// transactions finds a record overwritten, and its watches end with
	// ErrCompacted. Every client begins somewhere by chance and goes round, so that
	// two meet only when one overtakes the other.
	slotsCount = 8192
	// slotsBlock is how many slots are created at once.
	slotsBlock = 64
)

// slots hands out the slots of the ring.
type slots struct {
	mu   sync.Mutex
	next int
	// count is slotsCount.
	count int
	// made are the blocks known to be there.
	made map[int]bool
}

func (s *slots) init() {
	s.count, s.next = slotsCount, rand.IntN(slotsCount)
	s.made = map[int]bool{}
}

// slot is the path of one.
func (l layout) slot(i int) string { return fmt.Sprintf("%s%s/%04x", l.chroot, slotsDir, i) }

// isSlot recognizes the path of a slot.
func (l layout) isSlot(path string) bool {
	number, ok := strings.CutPrefix(path, l.chroot+slotsDir+"/")
	return ok && len(number) == 4
}

// take returns the next slot, which is there.
func (b *Broker) takeSlot(ctx context.Context, l *link) (string, error) {
	b.slots.mu.Lock()
	i := b.slots.next
	b.slots.next = (i + 1) % b.slots.count
	made := b.slots.made[i/slotsBlock]
	b.slots.mu.Unlock()
	if !made {
		if err := b.makeBlock(ctx, l, i/slotsBlock); err != nil {
			return "", err
		}
	}
	return b.layout.slot(i), nil
}

// makeBlock creates a block of the ring, all at once so that one of them tells of
// all.
func (b *Broker) makeBlock(ctx context.Context, l *link, block int) error {
	first := block * slotsBlock
	reply, err := l.conn.Do(ctx, wire.MultiRead([]wire.Read{wire.GetData(b.layout.slot(first))}))
	if err != nil {
		return err
	}
	if reply.Results[0].Code == wire.CodeNoNode {
		var ops []wire.Op
		for i := range slotsBlock {
			ops = append(ops, wire.Create(b.layout.slot(first+i), nil, wire.Persistent, b.acls))
		}
		if reply, err = l.conn.Do(ctx, wire.Multi(ops)); err != nil {
			return err
		}
		if _, code := reply.Failed(); code != wire.CodeOK && code != wire.CodeNodeExists {
			return code
		}
	}
	b.slots.mu.Lock()
	b.slots.made[block] = true
	b.slots.mu.Unlock()
	return nil
}

// forget makes the slots be looked for again, after one was missing.
func (s *slots) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.made)
}
