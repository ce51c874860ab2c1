package etcd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/status"

	"github.com/windlass-go/windlass/broker"
)

// Member is a member of the cluster, as it describes itself.
type Member struct {
	// Endpoint is the address at which it was asked, or by which it is known.
	Endpoint string
	// ID is zero for an endpoint that did not answer and is not known to be a member's.
	ID uint64
	// Name is its name in the cluster; empty if the user may not ask.
	Name string
	// Version is the version of its server, such as "3.7.3".
	Version string
	// Leader is true if it leads, Leaderless if it knows no leader, Learner if it has
	// no vote.
	Leader, Leaderless, Learner bool
	// DBSize is the size of its database's file in bytes, and InUse how many of them
	// are in use. Quota is the size at which it raises an alarm, zero if it has none or
	// does not report it, which versions before 3.6 do not.
	DBSize, InUse, Quota int64
	// Alarms lists the alarms that it knows of, such as "NOSPACE", of any member.
	Alarms []string
	// Term is the Raft term that it last heard of. A member that was cut off and led,
	// or follows who led, knows an older one than the others for a moment.
	Term uint64
	// RaftIndex is the last entry of the log that it knows to be committed.
	RaftIndex uint64
	// Err is why nothing is known of it, nil if it answered.
	Err error
}

// AlarmNoSpace is the alarm of a database that is over its quota. It stays until
// it is disarmed.
const AlarmNoSpace = "NOSPACE"

// memberTimeout bounds the time that one member has to describe itself.
const memberTimeout = 3 * time.Second

// Members asks every member to describe itself, concurrently: those at the endpoints,
// and further ones that the cluster knows. It needs no leader. A member that does not
// answer is in the list with its error. The list is in order of names.
func (b *Broker) Members(ctx context.Context) ([]Member, error) {
	if !b.enter() {
		return nil, b.closedError("members", "")
	}
	defer b.calls.Done()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(b.life, cancel)()
	asked := b.askAll(ctx, b.endpoints())
	if ctx.Err() == nil && !slices.ContainsFunc(asked, func(m Member) bool { return m.Err == nil }) {
		return sortMembers(asked), nil // there is nobody to ask who else there is
	}
	bounded, stop := context.WithTimeout(ctx, memberTimeout)
	defer stop()
	list, err := b.client.MemberList(bounded, clientv3.WithSerializable())
	if ctx.Err() != nil {
		return nil, broker.NewError("members", b.address, broker.ErrUnavailable, ctx.Err())
	}
	if err != nil {
		// Some users may not ask who else there is; the endpoints must do.
		return sortMembers(asked), nil
	}
	return sortMembers(b.join(ctx, asked, list.Members)), nil
}

// Space returns the size of a member's database, and the size at which the member
// raises an alarm; zero if it does not report that. It asks the first member that
// answers.
func (b *Broker) Space(ctx context.Context) (used, quota int64, err error) {
	if !b.enter() {
		return 0, 0, b.closedError("space", "")
	}
	defer b.calls.Done()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(b.life, cancel)()
	for _, endpoint := range b.endpoints() {
		// One that hangs must leave the others some of the time.
		bounded, stop := context.WithTimeout(ctx, memberTimeout/3)
		m := b.ask(bounded, endpoint)
		stop()
		if m.Err == nil {
			return m.DBSize, m.Quota, nil
		}
		err = m.Err
	}
	return 0, 0, broker.NewError("space", b.address, broker.ErrUnavailable, err)
}

// Members asks the members of a cluster as the method does, and connects only for that.
// It is for a cluster without a leader, to which Open does not connect.
func Members(ctx context.Context, config Config) ([]Member, error) {
	if err := config.validate(); err != nil {
		return nil, err
	}
	config = config.withDefaults()
	start := time.Now()
	dialing, cancel := context.WithTimeout(ctx, config.DialTimeout)
	defer cancel()
	client, err := config.client(dialing)
	if err != nil {
		return nil, openError(dialing, strings.Join(config.Endpoints, ","), start, err)
	}
	b := New(client, Options{RequestTimeout: config.RequestTimeout, tls: config.TLS != nil})
	members, err := b.Members(ctx)
	return members, errors.Join(err, b.Close())
}

// endpoints are the addresses to ask at; the empty one is the server in this
// process.
func (b *Broker) endpoints() []string {
	if endpoints := b.client.Endpoints(); len(endpoints) > 0 {
		return endpoints
	}
	return []string{""}
}

func (b *Broker) askAll(ctx context.Context, endpoints []string) []Member {
	members := make([]Member, len(endpoints))
	var asking sync.WaitGroup
	for i, endpoint := range endpoints {
		asking.Go(func() { members[i] = b.ask(ctx, endpoint) })
	}
	asking.Wait()
	return members
}

// ask describes the member at an endpoint.
func (b *Broker) ask(ctx context.Context, endpoint string) Member {
	m := Member{Endpoint: endpoint}
	if endpoint == "" {
		m.Endpoint = b.address
	}
	ctx, cancel := context.WithTimeout(ctx, memberTimeout)
	defer cancel()
	answer, err := b.status(ctx, endpoint)
	if err != nil {
		m.Err = fmt.Errorf("no answer: %s", status.Convert(err).Message())
		return m
	}
	m.ID, m.Version, m.Learner, m.Term, m.RaftIndex = answer.Header.MemberId, answer.Version, answer.IsLearner, answer.RaftTerm, answer.RaftIndex
	m.Leader, m.Leaderless = answer.Leader == m.ID, answer.Leader == 0
	m.DBSize, m.InUse, m.Quota = answer.DbSize, answer.DbSizeInUse, max(0, answer.DbSizeQuota)
	m.Alarms = alarms(answer.Errors)
	return m
}

// status asks at one endpoint. The client's own function for it hides why a
// connection failed.
func (b *Broker) status(ctx context.Context, endpoint string) (*pb.StatusResponse, error) {
	if endpoint == "" {
		answer, err := b.client.Status(ctx, "")
		return (*pb.StatusResponse)(answer), err
	}
	conn, err := b.client.Dial(endpoint)
	if err != nil {
		return nil, err
	}
	defer conn.Close() // only read from
	return pb.NewMaintenanceClient(conn).Status(ctx, &pb.StatusRequest{})
}

// alarms are the names of the alarms among what a member complains of, each
// once. Who may ask for the status may see them; asking for the alarms
// themselves takes more.
func alarms(complaints []string) []string {
	var names []string
	for _, complaint := range complaints {
		_, name, ok := strings.Cut(complaint, "alarm:")
		if name = strings.TrimSpace(name); ok && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// join puts together who answered and who should have.
func (b *Broker) join(ctx context.Context, asked []Member, list []*pb.Member) []Member {
	members := make([]Member, len(list))
	left := slices.Clone(asked)
	var asking sync.WaitGroup
	for i, known := range list {
		at := slices.IndexFunc(left, func(m Member) bool { return m.ID == known.ID || m.ID == 0 && serves(known, m.Endpoint) })
		if at >= 0 {
			members[i] = left[at]
			left = slices.Delete(left, at, at+1)
			continue
		}
		asking.Go(func() { members[i] = b.find(ctx, known) })
	}
	asking.Wait()
	for i, known := range list {
		members[i].ID, members[i].Name, members[i].Learner = known.ID, known.Name, known.IsLearner
	}
	for _, m := range left {
		if slices.ContainsFunc(members, func(known Member) bool { return known.ID == m.ID }) {
			continue // one member at two endpoints
		}
		if m.ID != 0 {
			m.Err, m.ID = errors.New("it belongs to another cluster"), 0
		}
		members = append(members, m)
	}
	return members
}

// serves tells whether an endpoint is one of the addresses that a member gives.
func serves(m *pb.Member, endpoint string) bool {
	bare := func(address string) string {
		if _, rest, ok := strings.Cut(address, "://"); ok {
			return rest
		}
		return address
	}
	return slices.ContainsFunc(m.ClientURLs, func(url string) bool { return bare(url) == bare(endpoint) })
}

// errPlain is of a member that says it is reached without TLS, in a cluster that is reached
// with it.
var errPlain = errors.New("the address that it gives is without TLS, and this connection is with TLS")

// find asks a member at the addresses that it gives, until one answers.
func (b *Broker) find(ctx context.Context, known *pb.Member) Member {
	m := Member{Err: errors.New("it has not started")}
	for _, url := range known.ClientURLs {
		// The client would leave TLS out, and send the user's token, for whoever may add
		// a member.
		if b.secure && !endpointSecure(url, true) {
			m = Member{Endpoint: url, Err: errPlain}
			continue
		}
		if m = b.ask(ctx, url); m.Err == nil && m.ID == known.ID {
			return m
		}
		if m.Err == nil {
			m = Member{Endpoint: url, Err: errors.New("another member answers at its address")}
		}
	}
	return m
}

func sortMembers(members []Member) []Member {
	slices.SortFunc(members, func(a, b Member) int {
		return strings.Compare(a.Name+"\x00"+a.Endpoint, b.Name+"\x00"+b.Endpoint)
	})
	return members
}

// Compact forgets the history before a revision and waits until it is gone from disk.
// It is not part of broker.Broker: a cluster compacts by its own settings, and this is
// for maintenance and tests.
func (b *Broker) Compact(ctx context.Context, revision broker.Revision) error {
	e := b.call(ctx, "compact", "", func(ctx context.Context) error {
		_, err := b.client.KV.Compact(ctx, int64(revision), clientv3.WithCompactPhysical())
		return err
	})
	return writing(e)
}

// Reclaim frees space. It forgets the history, then returns the free pages to the file
// system, on one member after the other and on the leader last, and disarms the alarm.
// A member does not answer meanwhile, for longer the more it has in use. If there is
// still no room for one more value, the alarm stays and the error is broker.ErrNoSpace.
// It needs the rights of etcd's root.
func (b *Broker) Reclaim(ctx context.Context) error {
	before, err := b.Members(ctx)
	if err != nil {
		return err
	}
	if err := b.compactNow(ctx); err != nil {
		return err
	}
	// A leader that is busy with this can lose its place; then the other members
	// should be done.
	slices.SortStableFunc(before, func(a, b Member) int { return boolCompare(a.Leader, b.Leader) })
	for _, m := range before {
		if m.Err != nil {
			continue // it has its own history to forget when it is back
		}
		if err := b.defragment(ctx, m); err != nil {
			return err
		}
	}
	after, err := b.Members(ctx)
	if err != nil {
		return err
	}
	for _, m := range after {
		// Whoever disarms what has no room for one value more is back here at once.
		if m.Err == nil && m.Quota > 0 && m.DBSize+broker.ValueBytesMax >= m.Quota {
			return broker.NewError("reclaim", m.Endpoint, broker.ErrNoSpace,
				fmt.Errorf("%d bytes are still in use; the quota is %d", m.InUse, m.Quota))
		}
	}
	return b.disarm(ctx)
}

func boolCompare(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

// compactNow forgets the history up to the present revision. Watches that are
// up to date do not notice; those that lag list anew.
func (b *Broker) compactNow(ctx context.Context) error {
	var revision int64
	e := b.call(ctx, "reclaim", "", func(ctx context.Context) error {
		answer, err := b.client.Get(ctx, "\x00", clientv3.WithCountOnly())
		if err == nil {
			revision = answer.Header.Revision
		}
		return err
	})
	if e != nil {
		return readOnly(e)
	}
	if err := b.Compact(ctx, broker.Revision(revision)); err != nil && !errors.Is(err, broker.ErrCompacted) {
		return err
	}
	return nil
}

// defragmentMax bounds the time for one member's database.
const defragmentMax = 5 * time.Minute

func (b *Broker) defragment(ctx context.Context, m Member) error {
	if !b.enter() {
		return b.closedError("reclaim", m.Endpoint)
	}
	defer b.calls.Done()
	bounded, cancel := context.WithTimeout(ctx, defragmentMax)
	defer cancel()
	defer context.AfterFunc(b.life, cancel)()
	var err error
	if b.defrag != nil {
		err = b.defrag()
	} else {
		_, err = b.client.Defragment(bounded, m.Endpoint)
	}
	if err != nil {
		return readOnly(b.requestFailure(ctx, "reclaim", m.Endpoint, err))
	}
	return nil
}

// disarm takes the alarms about space back, and no others.
func (b *Broker) disarm(ctx context.Context) error {
	e := b.call(ctx, "disarm", "", func(ctx context.Context) error {
		list, err := b.client.AlarmList(ctx)
		if err != nil {
			return err
		}
		for _, alarm := range list.Alarms {
			if alarm.Alarm != pb.AlarmType_NOSPACE {
				continue
			}
			if _, err := b.client.AlarmDisarm(ctx, (*clientv3.AlarmMember)(alarm)); err != nil {
				return err
			}
		}
		return nil
	})
	return readOnly(e)
}
