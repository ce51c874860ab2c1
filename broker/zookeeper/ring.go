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
	// slotsCount is the length of the ring. A watcher that lags by more transactions
	// finds a record overwritten, and its watches end with ErrCompacted. Every client
	// starts at a random slot, so that two meet only when one overtakes the other.
	slotsCount = 8192
	// slotsBlock is how many slots are created at once.
	slotsBlock = 64
)

// slots hands out the slots of the ring.
type slots struct {
	mu   sync.Mutex
	next int
	// count is slotsCount, less in tests.
	count int
	// made are the blocks known to exist.
	made map[int]bool
}

func (s *slots) init() {
	s.count, s.next = slotsCount, rand.IntN(slotsCount)
	s.made = map[int]bool{}
}

func (l layout) slot(i int) string { return fmt.Sprintf("%s%s/%04x", l.chroot, slotsDir, i) }

func (l layout) isSlot(path string) bool {
	number, ok := strings.CutPrefix(path, l.chroot+slotsDir+"/")
	return ok && len(number) == 4
}

// writeRecord returns the operation that writes a record to the next slot, which it creates
// if necessary.
func (b *Broker) writeRecord(ctx context.Context, l *link, r record) (wire.Op, error) {
	b.slots.mu.Lock()
	i := b.slots.next
	b.slots.next = (i + 1) % b.slots.count
	made := b.slots.made[i/slotsBlock]
	b.slots.mu.Unlock()
	if !made {
		if err := b.makeBlock(ctx, l, i/slotsBlock); err != nil {
			return wire.Op{}, err
		}
	}
	return wire.SetData(b.layout.slot(i), r.encode(), wire.AnyVersion), nil
}

// writeQuiet is writeRecord for a transaction that changes znodes but no keys.
func (b *Broker) writeQuiet(ctx context.Context, l *link, paths ...string) (wire.Op, error) {
	r := make(record, len(paths))
	for i, path := range paths {
		r[i] = change{kind: changeQuiet, events: 1, path: path[len(b.layout.chroot):]}
	}
	return b.writeRecord(ctx, l, r)
}

// makeBlock creates a block of the ring if it is missing, all at once, so that if one slot
// exists all do.
func (b *Broker) makeBlock(ctx context.Context, l *link, block int) error {
	first := block * slotsBlock
	z, err := readZnode(ctx, l.conn, b.layout.slot(first))
	if err != nil {
		return err
	}
	if !z.there {
		var ops []wire.Op
		for i := range slotsBlock {
			ops = append(ops, wire.Create(b.layout.slot(first+i), nil, wire.Persistent, b.acls))
		}
		reply, err := l.conn.Do(ctx, wire.Multi(ops))
		if err != nil {
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

// forget makes the broker look for slots again, after one was missing.
func (s *slots) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.made)
}
