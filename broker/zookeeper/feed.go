package zookeeper

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/broker/zookeeper/internal/wire"
)

// feed makes the history of a link: what changed, in order, with revisions.
//
//	server --events, replies--> items --run--> entries --> Watch, List
//
// The server sends the events of a change before any reply that shows it, and of no
// later one. So the zxid of a reply is a mark in the stream of events: what stands
// before it is not after it in time. Each transaction of ours begins with the event
// of its slot of the ring, whose record says what changed and whose mzxid says when;
// the events that follow, up to the next slot, are the record's own. What no record
// explains was done by the server, which deletes the znodes of a session that ended,
// or by another program.
type feed struct {
	broker *Broker
	conn   *wire.Conn

	// wake has a capacity of 1: there are items.
	wake chan struct{}

	// These belong to the goroutine that runs.

	// expected are the events still to come of the last record, by path.
	expected map[string]int
	// strange are events that no record explains and whose place in time is not
	// yet known.
	strange []wire.Event
	// lost tells that a record was overwritten before it could be read.
	lost bool

	mu sync.Mutex
	// items have come and were not looked at.
	items []item
	// idle tells that there is nothing between items and entries.
	idle bool
	// entries are the history. Invariant: their revisions rise, all are above
	// floor, and none is above complete.
	entries []entry
	// size is how many events they have, and bytes of values.
	size, bytes int
	// floor is the last revision whose changes are not known here.
	floor broker.Revision
	// complete is the revision up to which all changes are in entries.
	complete broker.Revision
	// heard is when a mark last came.
	heard time.Duration
	// err is why the feed ended.
	err error
	// changed is closed when anything of this changes.
	changed chan struct{}
}

// item is an event, or a mark if zxid is set.
type item struct {
	event wire.Event
	zxid  int64
}

// entry is what changed at a revision.
type entry struct {
	revision broker.Revision
	events   []event
	bytes    int
}

// event is one change of one key.
type event struct {
	broker.Event
	// long is the length of a value that is not here, because the record had no room for
	// it; zero if it is. Who needs it reads the key.
	long int
}

const (
	// historySizeMax and historyBytesMax bound the entries.
	historySizeMax  = 200_000
	historyBytesMax = 64 << 20
	// slotsReadMax bounds the slots read at once.
	slotsReadMax = 512
	// beatInterval is how often the server is asked how far it is.
	beatInterval = broker.ProgressMax / 8
)

func newFeed(b *Broker) *feed {
	return &feed{broker: b, wake: make(chan struct{}, 1), changed: make(chan struct{}), expected: map[string]int{}, idle: true}
}

// begin tells from when on events come.
func (f *feed) begin(conn *wire.Conn, zxid int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.conn, f.floor, f.heard = conn, broker.Revision(zxid), f.broker.now()
	f.complete = max(f.complete, f.floor)
}

// event takes what the connection delivers.
func (f *feed) event(e wire.Event) {
	if f.broker.layout.isOurs(e.Path) && !f.broker.layout.isSlot(e.Path) {
		return
	}
	f.mu.Lock()
	f.items = append(f.items, item{event: e})
	f.idle = false
	f.mu.Unlock()
	f.poke()
}

// mark takes the zxid of a reply.
func (f *feed) mark(zxid int64) {
	f.mu.Lock()
	f.heard = f.broker.now()
	n := len(f.items)
	switch {
	case f.idle:
		f.advance(broker.Revision(zxid))
	case n > 1 && f.items[n-1].zxid > 0 && f.items[n-2].zxid > 0:
		// The first mark after events stays: it bounds when they happened.
		f.items[n-1].zxid = max(f.items[n-1].zxid, zxid)
	default:
		f.items = append(f.items, item{zxid: zxid})
	}
	f.mu.Unlock()
	f.poke()
}

func (f *feed) poke() {
	select {
	case f.wake <- struct{}{}:
	default: // run will look anyway
	}
}

// advance raises complete. The caller holds mu.
func (f *feed) advance(revision broker.Revision) {
	if revision > f.complete {
		f.complete = revision
		f.announce()
	}
}

// announce wakes who waits. The caller holds mu.
func (f *feed) announce() {
	close(f.changed)
	f.changed = make(chan struct{})
}

// fail ends the feed.
func (f *feed) fail(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err = err; err == nil {
		f.err = wire.ErrClosed
	}
	f.announce()
}

// run makes history of what comes until the connection or ctx ends.
func (f *feed) run(ctx context.Context) {
	beat := time.NewTicker(beatInterval)
	defer beat.Stop()
	for {
		select {
		case <-f.wake:
			for f.round(ctx) {
			}
		case <-beat.C:
			if f.since(0).err != nil {
				return
			}
			f.conn.Send(wire.Sync("/"), func(wire.Reply, error) {}) // its reply is a mark
		case <-f.conn.Ended():
			return
		case <-ctx.Done():
			return
		}
	}
}

// round looks at what has come, and tells whether there may be more to do.
func (f *feed) round(ctx context.Context) bool {
	items := f.takeItems()
	if len(items) == 0 {
		return false
	}
	if f.explain(ctx, items) != nil {
		// The connection is over, or something may not be read: the history has a gap.
		f.lost = true
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	open := len(f.strange) > 0 || f.lost
	if f.idle = len(f.items) == 0 && !open; open && len(f.items) == 0 {
		// Any reply is a mark.
		f.conn.Send(wire.MultiRead([]wire.Read{wire.GetData(f.broker.layout.chroot + ownDir)}), func(wire.Reply, error) {})
	}
	return len(f.items) > 0
}

// explain makes entries of items. After an error the rest of them are as good as lost.
func (f *feed) explain(ctx context.Context, items []item) error {
	records, err := f.readSlots(ctx, items)
	if err != nil {
		return err
	}
	for _, it := range items {
		switch {
		case it.zxid > 0:
			if err = f.explainStrange(ctx, broker.Revision(it.zxid)); err == nil {
				f.mu.Lock()
				f.advance(broker.Revision(it.zxid))
				f.mu.Unlock()
			}
		case f.broker.layout.isSlot(it.event.Path):
			if it.event.Type == wire.EventDataChanged {
				err = f.takeRecord(ctx, it.event.Path, records)
			}
		case f.expected[it.event.Path] > 0:
			f.expected[it.event.Path]--
		default:
			f.strange = append(f.strange, it.event)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// takeItems takes as much as a round can do.
func (f *feed) takeItems() []item {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := 0
	for i, it := range f.items {
		if it.zxid == 0 && f.broker.layout.isSlot(it.event.Path) {
			if n++; n > slotsReadMax {
				taken := f.items[:i:i]
				f.items = f.items[i:]
				return taken
			}
		}
	}
	taken := f.items
	f.items = nil
	return taken
}

// slotRecord is a record with its revision.
type slotRecord struct {
	record
	revision broker.Revision
	// last is how many more events of the slot there are in the round. What was
	// read is the record of the last of them; those before are lost.
	last int
	lost bool
	// index is its place among the reads.
	index int
}

// readSlots reads the slots that have events among the items.
func (f *feed) readSlots(ctx context.Context, items []item) (map[string]*slotRecord, error) {
	records := map[string]*slotRecord{}
	var reads []wire.Read
	for _, it := range items {
		if it.zxid > 0 || it.event.Type != wire.EventDataChanged || !f.broker.layout.isSlot(it.event.Path) {
			continue
		}
		if records[it.event.Path] == nil {
			records[it.event.Path] = &slotRecord{index: len(reads)}
			reads = append(reads, wire.GetData(it.event.Path))
		}
		records[it.event.Path].last++
	}
	if len(reads) == 0 {
		return records, nil
	}
	reply, err := f.conn.Do(ctx, wire.MultiRead(reads))
	if err != nil {
		return nil, err
	}
	for _, s := range records {
		result := reply.Results[s.index]
		if s.record, err = decodeRecord(result.Data); err != nil || result.Code != wire.CodeOK {
			s.lost = true
			continue
		}
		s.revision = broker.Revision(result.Stat.Mzxid)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, it := range f.items { // written again before or after it was read
		if s := records[it.event.Path]; s != nil && it.event.Type == wire.EventDataChanged {
			s.lost = true
		}
	}
	return records, nil
}

// takeRecord makes an entry of a transaction.
func (f *feed) takeRecord(ctx context.Context, path string, records map[string]*slotRecord) error {
	s := records[path]
	clear(f.expected)
	if s.last--; s.last > 0 || s.lost {
		f.lost = true
		return nil
	}
	if err := f.explainStrange(ctx, s.revision-1); err != nil {
		return err
	}
	for _, c := range s.changes {
		f.expected[f.broker.layout.chroot+c.path] += c.events
	}
	f.add(f.entry(s))
	return nil
}

// entry makes the entry of a record.
func (f *feed) entry(s *slotRecord) entry {
	b := f.broker
	e := entry{revision: s.revision}
	for _, c := range s.changes {
		key, ok := b.layout.key(b.layout.chroot + c.path)
		if !ok || c.kind == changeQuiet {
			continue
		}
		kv := broker.KV{Key: key, Modified: s.revision}
		if c.kind != changeDelete {
			kv.Value, kv.Session, kv.Created = c.value, c.session, c.created
			if kv.Created == 0 {
				kv.Created = s.revision
			}
		} else {
			b.emptied.add(parent(b.layout.chroot + c.path))
		}
		e.events = append(e.events, event{Event: broker.Event{Deleted: c.kind == changeDelete, KV: kv}, long: c.long})
		e.bytes += len(c.value)
	}
	return e
}

func (f *feed) readZnode(ctx context.Context, path string) (znode, error) {
	reply, err := f.conn.Do(ctx, wire.MultiRead([]wire.Read{wire.GetData(path)}))
	if err != nil {
		return znode{}, err
	}
	return toZnode(reply.Results[0])
}

// explainStrange makes an entry of the events that no record explains. All that is
// known of when they happened is that it was after the last entry, and at the
// revision at the latest.
func (f *feed) explainStrange(ctx context.Context, revision broker.Revision) error {
	events := f.strange
	f.strange = nil
	if f.lost {
		f.lost = false
		f.reset(revision)
		return nil
	}
	times := map[string]int{}
	for _, e := range events {
		times[e.Path]++
	}
	out := entry{revision: revision}
	for _, e := range events {
		key, ok := f.broker.layout.key(e.Path)
		if !ok {
			continue
		}
		if e.Type == wire.EventDeleted {
			f.broker.emptied.add(parent(e.Path))
			out.events = append(out.events, event{Event: broker.Event{Deleted: true, KV: broker.KV{Key: key, Modified: revision}}})
			continue
		}
		z, err := f.readZnode(ctx, e.Path)
		if err != nil {
			return err
		}
		kv := z.kv(key)
		if times[e.Path] == 1 && z.there && kv == nil {
			continue // a directory
		}
		if times[e.Path] > 1 || kv == nil || kv.Modified > revision {
			f.reset(revision)
			return nil
		}
		out.events = append(out.events, event{Event: broker.Event{KV: *kv}})
		out.bytes += len(kv.Value)
	}
	if len(out.events) > 0 {
		slices.SortStableFunc(out.events, func(a, b event) int { return cmp.Compare(a.KV.Modified, b.KV.Modified) })
		f.add(out)
	}
	return nil
}

// add appends an entry, and drops the oldest ones beyond the bounds.
func (f *feed) add(e entry) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if e.revision <= f.floor {
		return
	}
	f.entries = append(f.entries, e)
	f.size += max(len(e.events), 1)
	f.bytes += e.bytes
	for f.size > historySizeMax || f.bytes > historyBytesMax {
		f.dropOldest()
	}
	f.advance(e.revision)
}

// dropOldest forgets the oldest entry. The caller holds mu.
func (f *feed) dropOldest() {
	e := f.entries[0]
	f.entries = f.entries[1:]
	f.size -= max(len(e.events), 1)
	f.bytes -= e.bytes
	f.floor = e.revision
}

// reset gives up what is known up to a revision, because something is missing.
func (f *feed) reset(revision broker.Revision) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.entries, f.size, f.bytes = nil, 0, 0
	f.floor = max(f.floor, revision)
	f.advance(f.floor)
	f.announce()
}

// compact forgets the history up to a revision, that included.
func (f *feed) compact(revision broker.Revision) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for len(f.entries) > 0 && f.entries[0].revision <= revision {
		f.dropOldest()
	}
	f.floor = max(f.floor, min(revision, f.complete))
	f.announce()
}

var errFeedSilent = fmt.Errorf("%w: the server does not say how far it is", broker.ErrSilent)

// view is what of a feed can be read at one moment.
type view struct {
	entries  []entry
	floor    broker.Revision
	complete broker.Revision
	err      error
	changed  <-chan struct{}
}

// since returns the entries from a revision on.
func (f *feed) since(from broker.Revision) view {
	f.mu.Lock()
	defer f.mu.Unlock()
	v := view{floor: f.floor, complete: f.complete, err: f.err, changed: f.changed}
	if v.err == nil && f.broker.now()-f.heard > broker.ProgressMax {
		v.err = errFeedSilent
	}
	low, high := 0, len(f.entries)
	for low < high {
		if middle := (low + high) / 2; f.entries[middle].revision < from {
			low = middle + 1
		} else {
			high = middle
		}
	}
	v.entries = f.entries[low:len(f.entries):len(f.entries)]
	return v
}

// until waits for the history up to a revision.
func (f *feed) until(ctx context.Context, revision, from broker.Revision) (view, error) {
	for {
		v := f.since(from)
		if v.err != nil || v.complete >= revision {
			return v, v.err
		}
		select {
		case <-v.changed:
		case <-ctx.Done():
			return v, &wire.Error{Cause: ctx.Err()}
		}
	}
}
