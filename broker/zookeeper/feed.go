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

// feed builds the history of a link: what changed, in order, with revisions.
//
//	server --events, replies--> items --run--> entries --> Watch, List
//
// Before a reply the server sends the events of exactly the changes up to the reply's zxid.
// So the zxid is a mark in the stream of events: all events before it are of changes up to
// it. Each of our transactions begins with the event of its slot of the ring, whose record
// lists the changes and whose mzxid is the revision; the events that follow, up to the next
// slot, are the record's own. A change without a record was made by the server, which
// deletes the znodes of a session that ended, or by another program.
type feed struct {
	broker *Broker
	conn   *wire.Conn

	// wake has a capacity of 1: there are items.
	wake chan struct{}

	// The next three fields belong to the goroutine of run.

	// expected counts the outstanding events of the last record, by path.
	expected map[string]int
	// strange are events without a record, whose revision is not yet known.
	strange []wire.Event
	// lost is set when a record was overwritten before it could be read.
	lost bool

	mu sync.Mutex // guards the fields below
	// items have arrived and are not yet processed.
	items []item
	// idle is set when every item has been turned into entries.
	idle bool
	// entries are the history. Invariant: their revisions rise, all are above
	// floor, and none is above complete.
	entries []entry
	// size is the number of their events, bytes the length of their values.
	size, bytes int
	// floor is the last revision whose changes are not known here.
	floor broker.Revision
	// complete is the revision up to which all changes are in entries.
	complete broker.Revision
	// heard is the time of the last mark.
	heard time.Duration
	// err is the reason for which the feed ended.
	err error
	// changed is closed when any of these fields changes.
	changed chan struct{}
}

// item is an event, or a mark if zxid is set.
type item struct {
	event wire.Event
	zxid  int64
}

// entry is the changes at a revision.
type entry struct {
	revision broker.Revision
	events   []event
	bytes    int
}

// event is one change of one key.
type event struct {
	broker.Event
	// long is the length of a value that the record had no room for, zero if it is
	// present. A long value is read from its key.
	long int
}

const (
	// historySizeMax and historyBytesMax limit the entries.
	historySizeMax  = 200_000
	historyBytesMax = 64 << 20
	// slotsReadMax limits the slots read at once.
	slotsReadMax = 512
	// beatInterval is the time between requests whose replies serve as marks.
	beatInterval = broker.ProgressMax / 8
)

func newFeed(b *Broker) *feed {
	return &feed{broker: b, wake: make(chan struct{}, 1), changed: make(chan struct{}), expected: map[string]int{}, idle: true}
}

// begin records that events arrive for the changes after zxid.
func (f *feed) begin(conn *wire.Conn, zxid int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.conn, f.floor, f.heard = conn, broker.Revision(zxid), f.broker.now()
	f.complete = max(f.complete, f.floor)
}

// event adds an event of the connection.
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

// mark adds the zxid of a reply.
func (f *feed) mark(zxid int64) {
	f.mu.Lock()
	f.heard = f.broker.now()
	n := len(f.items)
	switch {
	case f.idle:
		f.advance(broker.Revision(zxid))
	case n > 1 && f.items[n-1].zxid > 0 && f.items[n-2].zxid > 0:
		// The first mark after events is kept: it limits their revision.
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
	default: // run is awake already
	}
}

// advance raises complete. The caller holds mu.
func (f *feed) advance(revision broker.Revision) {
	if revision > f.complete {
		f.complete = revision
		f.announce()
	}
}

// announce wakes all waiters. The caller holds mu.
func (f *feed) announce() {
	close(f.changed)
	f.changed = make(chan struct{})
}

// fail ends the feed.
func (f *feed) fail(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.err = err
	f.announce()
}

// run turns items into entries until the connection or ctx ends.
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
			f.conn.Send(wire.Sync(), func(wire.Reply, error) {}) // its reply is a mark
		case <-f.conn.Ended():
			return
		case <-ctx.Done():
			return
		}
	}
}

// round processes the items that have arrived, and reports whether there are more.
func (f *feed) round(ctx context.Context) bool {
	items := f.takeItems()
	if len(items) == 0 {
		return false
	}
	if f.explain(ctx, items) != nil {
		// The connection ended, or a znode may not be read: the history has a gap.
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

// explain turns items into entries. After an error the remaining ones are lost.
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

// takeItems removes as many items as a round can process.
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
	// last counts the outstanding events of the slot in the round. The record that was
	// read is that of the last of them; earlier ones are lost.
	last int
	lost bool
	// index is the position of its read in the request.
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
	for _, it := range f.items { // maybe overwritten before it was read
		if s := records[it.event.Path]; s != nil && it.event.Type == wire.EventDataChanged {
			s.lost = true
		}
	}
	return records, nil
}

// takeRecord adds the entry of a transaction.
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
	for _, c := range s.record {
		f.expected[f.broker.layout.chroot+c.path] += c.events
	}
	f.add(f.entry(s))
	return nil
}

// entry converts a record.
func (f *feed) entry(s *slotRecord) entry {
	b := f.broker
	e := entry{revision: s.revision}
	for _, c := range s.record {
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

// explainStrange adds an entry for the events without a record. Their revision is known only
// to be after the last entry and at most the given one.
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
		z, err := readZnode(ctx, f.conn, e.Path)
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

// add appends an entry, and drops the oldest ones beyond the limits.
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

// reset drops the history up to a revision, because a change is missing.
func (f *feed) reset(revision broker.Revision) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.entries, f.size, f.bytes = nil, 0, 0
	f.floor = max(f.floor, revision)
	f.advance(f.floor)
	f.announce()
}

var errFeedSilent = fmt.Errorf("%w: the server does not say how far it is", broker.ErrSilent)

// view is a snapshot of a feed.
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
	first, _ := slices.BinarySearchFunc(f.entries, from, func(e entry, r broker.Revision) int { return cmp.Compare(e.revision, r) })
	v.entries = f.entries[first:len(f.entries):len(f.entries)]
	return v
}

// until waits for the history up to a revision and returns its entries from another on.
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
