package zookeeper

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/broker/zookeeper/internal/wire"
	"github.com/windlass-go/windlass/internal/pause"
)

const (
	// linkTimeout is the session timeout requested for the connection that reads,
	// writes and watches. A server that is silent for two thirds of it is abandoned.
	linkTimeout = 6 * time.Second
	// dialOneMax limits one attempt to connect, so that a frozen server leaves time
	// for another.
	dialOneMax = 2 * time.Second
	// dialPause is the time between two rounds over all servers.
	dialPause = 50 * time.Millisecond
	// goodbyeMax limits how long Close waits for a server to end its session.
	goodbyeMax = time.Second
)

// link is the connection with the history of the changes since it began. When it breaks,
// another link with its own history replaces it.
type link struct {
	conn *wire.Conn
	feed *feed
	// sights are what it shows of the sessions.
	sights *sights
	// timeout limits do.
	timeout time.Duration
}

// do sends requests and waits for their answers, all within one timeout.
func (l *link) do(ctx context.Context, requests ...wire.Request) []wire.Answer {
	ctx, cancel := context.WithTimeout(ctx, l.timeout)
	defer cancel()
	return l.conn.DoAll(ctx, requests...)
}

// dial connects to the servers in turn until one answers or refuses for a reason that all
// share, or ctx ends. The error is that of a server that hung up, if one did.
func (b *Broker) dial(ctx context.Context, change func(*wire.Config)) (*wire.Conn, error) {
	var why error
	for {
		conn, err := b.dialRound(ctx, change)
		if err == nil || !errors.Is(err, errHandshake) {
			return conn, err
		}
		if why == nil || ctx.Err() == nil { // an earlier error says more than the timeout
			why = err
		}
		if !pause.For(ctx, dialPause) {
			return nil, why
		}
	}
}

// dialRound tries each server once.
func (b *Broker) dialRound(ctx context.Context, change func(*wire.Config)) (*wire.Conn, error) {
	var worst error
	for range b.config.Servers {
		config := b.config.wireConfig()
		config.Address = b.config.Servers[int(b.server.Add(1))%len(b.config.Servers)]
		config.Now, config.LastZxid = b.now, b.seen.Load()
		change(&config)
		one, cancel := context.WithTimeout(ctx, dialOneMax)
		conn, err := wire.Dial(one, config)
		cancel()
		if err == nil || errors.Is(err, wire.ErrExpired) || errors.Is(err, wire.ErrAuth) {
			return conn, err
		}
		if worst == nil || isHangUp(err) {
			worst = fmt.Errorf("%w: %w", errHandshake, err)
		}
	}
	return nil, worst
}

// openLink tries each server once. The link is connected and watches, and its chroot is
// laid out.
func (b *Broker) openLink(ctx context.Context) (*link, error) {
	f, seen := newFeed(b), &sights{of: map[string]heard{}}
	conn, err := b.dialRound(ctx, func(c *wire.Config) {
		c.Timeout = linkTimeout
		c.Events = func(e wire.Event) {
			if b.layout.isSession(e.Path) {
				seen.take(e, b.now())
			}
			f.event(e)
		}
		c.Replied = func(zxid int64) {
			b.saw(zxid)
			f.mark(zxid)
		}
	})
	if err != nil {
		return nil, err
	}
	if granted := int64(conn.Timeout()); granted > int64(linkTimeout) && granted > b.leastTimeout.Load() {
		b.leastTimeout.Store(granted) // no other connection is opened meanwhile
	}
	l := &link{conn: conn, feed: f, sights: seen, timeout: b.config.RequestTimeout}
	if err := b.begin(ctx, l); err != nil {
		conn.Close()
		return nil, err
	}
	return l, nil
}

// begin reads the settings, which the events depend on, and then starts the watch, before
// anything else is read or written, so that no later change is missed.
func (b *Broker) begin(ctx context.Context, l *link) error {
	if err := b.settle(ctx, l); err != nil {
		return err
	}
	watched, err := l.conn.Do(ctx, wire.AddWatch(cmp.Or(b.config.Chroot, "/")))
	if err != nil {
		return err
	}
	l.feed.begin(l.conn, watched.Zxid)
	return nil
}

// saw records the last transaction seen.
func (b *Broker) saw(zxid int64) {
	for old := b.seen.Load(); zxid > old && !b.seen.CompareAndSwap(old, zxid); old = b.seen.Load() {
	}
}

// keepLinked runs the link's feed until the link breaks, and opens another, until the
// broker is closed.
func (b *Broker) keepLinked(l *link) {
	for {
		l.feed.run(b.life)
		if b.life.Err() != nil {
			// Otherwise the session would last until it times out.
			ctx, cancel := context.WithTimeout(context.Background(), goodbyeMax)
			_, _ = l.conn.Do(ctx, wire.CloseSession())
			cancel()
		}
		l.conn.Close()
		l.feed.fail(l.conn.Err())
		b.setLink(nil, l.conn.Err())
		for l = nil; l == nil; {
			if b.life.Err() != nil {
				return
			}
			ctx, cancel := context.WithTimeout(b.life, b.config.DialTimeout)
			next, err := b.openLink(ctx)
			cancel()
			if l = next; err != nil {
				b.setLink(nil, b.lookBehind(err))
				pause.For(b.life, dialPause)
			}
		}
		b.setLink(l, nil)
	}
}

func (b *Broker) setLink(l *link, down error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.link, b.down = l, down
	close(b.changed)
	b.changed = make(chan struct{})
}

// linked returns the link, and waits for it for up to Config.RequestTimeout.
func (b *Broker) linked(ctx context.Context) (*link, error) {
	ctx, cancel := context.WithTimeout(ctx, b.config.RequestTimeout)
	defer cancel()
	for {
		b.mu.Lock()
		l, down, changed := b.link, b.down, b.changed
		b.mu.Unlock()
		if l != nil && l.conn.Err() == nil {
			return l, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			if down == nil {
				down = ctx.Err()
			}
			return nil, &wire.Error{Cause: down}
		}
	}
}

// layoutVersion is the version of the layout below a chroot.
const layoutVersion = 1

// settings are stored in the znode of ownDir.
type settings struct {
	Version int      `json:"version"` // layoutVersion
	Wide    []string `json:"wide"`    // Config.Wide
}

// ownDirs are the directories of our own znodes.
var ownDirs = []string{keyEpochs, dirEpochs, sessionsDir, slotsDir}

// settle reads the settings of the chroot, and lays it out if it is new.
func (b *Broker) settle(ctx context.Context, l *link) error {
	own := b.layout.chroot + ownDir
	for {
		answers := l.conn.DoAll(ctx, b.layout.barrier(), wire.MultiRead([]wire.Read{wire.GetData(own)}))
		if err := errors.Join(answers[0].Err, answers[1].Err); err != nil {
			return err
		}
		if !b.settled {
			if err := b.checkACLs(ctx, l); err != nil {
				return err
			}
		}
		switch r := answers[1].Reply.Results[0]; r.Code {
		case wire.CodeOK:
			return b.takeSettings(r.Data)
		case wire.CodeNoNode:
		default:
			return r.Code
		}
		if err := b.layOut(ctx, l); err != nil {
			return err
		}
	}
}

// checkACLs refuses a chroot that everyone may change, unless our own znodes grant the same
// to everyone. ZooKeeper lets anyone create znodes below its root, and we do not change the
// ACL of an existing one: its owner can delete what is in it, such as sessions.
func (b *Broker) checkACLs(ctx context.Context, l *link) error {
	permitted := everyones(b.acls)
	if permitted == wire.PermAll&^wire.PermRead {
		return nil
	}
	paths := []string{cmp.Or(b.layout.chroot, "/"), b.layout.chroot + ownDir}
	for _, dir := range ownDirs {
		paths = append(paths, b.layout.chroot+dir)
	}
	requests := make([]wire.Request, len(paths))
	for i, path := range paths {
		requests[i] = wire.GetACL(path)
	}
	for i, a := range l.conn.DoAll(ctx, requests...) {
		if errors.Is(a.Err, wire.CodeNoNode) {
			continue // it will be created with our ACL
		}
		if a.Err != nil {
			return a.Err
		}
		if more := everyones(a.Reply.Results[0].ACLs) &^ permitted; more != 0 {
			return broker.NewError("open", b.address, broker.ErrPermission, fmt.Errorf(
				"everyone may do %q with %s, and the ACL of this connection does not say so: change the lists of all that is there (in ZooKeeper's command line: addauth digest USER:PASSWORD, setAcl -R %s auth::cdrwa), or use a chroot of one's own",
				letters(more), paths[i], paths[0]))
		}
	}
	return nil
}

// everyones returns the permissions that everyone has, except to read.
func everyones(acls []wire.ACL) (perms int32) {
	for _, a := range acls {
		if a.Scheme == "world" {
			perms |= a.Perms
		}
	}
	return perms &^ wire.PermRead
}

// letters formats permissions as in Config.ACL.
func letters(perms int32) string {
	var s strings.Builder
	for bit, letter := range permissions {
		if perms&(1<<bit) != 0 {
			s.WriteRune(letter)
		}
	}
	return s.String()
}

func (b *Broker) takeSettings(data []byte) error {
	invalid := func(format string, args ...any) error {
		return broker.NewError("open", b.address, broker.ErrInvalid, fmt.Errorf(format, args...))
	}
	var kept settings
	if err := json.Unmarshal(data, &kept); err != nil {
		return invalid("%s%s: %w", b.layout.chroot, ownDir, err)
	}
	if kept.Version != layoutVersion {
		return invalid("the layout of %s/ has version %d; this program knows %d", b.layout.chroot, kept.Version, layoutVersion)
	}
	sameWide := func(wide []string) bool {
		return slices.Equal(slices.Sorted(slices.Values(wide)), slices.Sorted(slices.Values(kept.Wide)))
	}
	if b.config.Wide != nil && !sameWide(b.config.Wide) {
		return invalid("wide directories %q: %s/ was laid out with %q", b.config.Wide, b.layout.chroot, kept.Wide)
	}
	if b.settled && !sameWide(b.layout.wide) {
		return invalid("wide directories %q: they were %q when %s/ was opened", kept.Wide, b.layout.wide, b.layout.chroot)
	}
	if !b.settled {
		b.layout.wide, b.settled = kept.Wide, true
	}
	return nil
}

// layOut creates the chroot, and then our own znodes in one transaction, in which one of
// several clients wins.
func (b *Broker) layOut(ctx context.Context, l *link) error {
	wide := b.config.Wide
	if wide == nil {
		wide = WideDefault
	}
	kept, err := json.Marshal(settings{Version: layoutVersion, Wide: wide})
	if err != nil {
		return err
	}
	root := b.layout.chroot
	for _, path := range (layout{}).ancestors(root + "/") {
		if err := b.createMissing(ctx, l, path); err != nil {
			return err
		}
	}
	ops := []wire.Op{wire.Create(root+ownDir, kept, wire.Persistent, b.acls)}
	for _, dir := range ownDirs {
		ops = append(ops, wire.Create(root+dir, nil, wire.Persistent, b.acls))
	}
	reply, err := l.conn.Do(ctx, wire.Multi(ops))
	if err != nil {
		return err
	}
	if _, code := reply.Failed(); code != wire.CodeOK && code != wire.CodeNodeExists {
		return code
	}
	return nil
}

// createMissing creates a directory if it is missing. It looks first, because creating an
// existing one may be forbidden.
func (b *Broker) createMissing(ctx context.Context, l *link, path string) error {
	reply, err := l.conn.Do(ctx, wire.MultiRead([]wire.Read{wire.GetData(path)}))
	if err != nil || reply.Results[0].Code != wire.CodeNoNode {
		return err
	}
	_, err = l.conn.Do(ctx, wire.Single(wire.Create(path, directory, wire.Persistent, b.acls)))
	return ignore(err, wire.CodeNodeExists)
}

func ignore(err error, code wire.Code) error {
	if errors.Is(err, code) {
		return nil
	}
	return err
}

// openError returns the error of Open.
func (b *Broker) openError(ctx context.Context, err error, spent time.Duration) error {
	e := b.failure(ctx, "open", b.address, err)
	if e.Kind == broker.ErrUnavailable && ctx.Err() == nil {
		e.Cause = fmt.Errorf("tried for %v: %w", spent.Round(time.Millisecond), err)
	}
	e.Maybe = false
	return e
}
