package etcd

import (
	"cmp"
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
	// ID is zero for an endpoint that did not answer and may not be a member's.
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
	// Err is the reason if nothing is known of the member, nil if it answered.
	Err error
}

// AlarmNoSpace is the alarm of a database that is over its quota. It stays until
// it is disarmed.
const AlarmNoSpace = "NOSPACE"

// memberTimeout limits the time that one member has to describe itself.
const memberTimeout = 3 * time.Second

// Members asks every member to describe itself, concurrently: those at the endpoints,
// and further ones that the cluster knows. It needs no leader. A member that does not
// answer is in the list with its error. The list is in order of names.
func (b *Broker) Members(ctx context.Context) ([]Member, error) {
	ctx, leave, err := b.enter(ctx, "members", b.address)
	if err != nil {
		return nil, err
	}
	defer leave()
	asked := b.askAll(ctx, b.endpoints())
	if ctx.Err() == nil && !slices.ContainsFunc(asked, func(m Member) bool { return m.Err == nil }) {
		return sortMembers(asked), nil // nobody can list the members
	}
	bounded, stop := context.WithTimeout(ctx, memberTimeout)
	defer stop()
	list, err := b.client.MemberList(bounded, clientv3.WithSerializable())
	if ctx.Err() != nil {
		return nil, broker.NewError("members", b.address, broker.ErrUnavailable, ctx.Err())
	}
	if err != nil {
		return sortMembers(asked), nil // the user may lack the permission
	}
	return sortMembers(b.join(ctx, asked, list.Members)), nil
}

// Space returns the size of a member's database, and the size at which the member
// raises an alarm; zero if it does not report that. It asks the first member that
// answers.
func (b *Broker) Space(ctx context.Context) (used, quota int64, err error) {
	ctx, leave, err := b.enter(ctx, "space", b.address)
	if err != nil {
		return 0, 0, err
	}
	defer leave()
	for _, endpoint := range b.endpoints() {
		// A member that hangs must leave time for the others.
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

// endpoints returns the addresses of the members; an empty one means the server in this
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
	m := Member{Endpoint: cmp.Or(endpoint, b.address)}
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

// status requests the status of one endpoint. The client's own function for that hides why a
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
	defer conn.Close()
	return pb.NewMaintenanceClient(conn).Status(ctx, &pb.StatusRequest{})
}

// alarms returns the names of the alarms among the errors of a member's status, each once.
// Any user may read the status; listing the alarms themselves needs more rights.
func alarms(errs []string) []string {
	var names []string
	for _, err := range errs {
		_, name, ok := strings.Cut(err, "alarm:")
		if name = strings.TrimSpace(name); ok && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// join combines the members that answered with those of the cluster's list.
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

// serves reports whether an endpoint is one of a member's client addresses.
func serves(m *pb.Member, endpoint string) bool {
	bare := func(address string) string {
		if _, rest, ok := strings.Cut(address, "://"); ok {
			return rest
		}
		return address
	}
	return slices.ContainsFunc(m.ClientURLs, func(url string) bool { return bare(url) == bare(endpoint) })
}

// errPlain is the error of a member whose client address is without TLS, in a cluster that
// is reached with TLS.
var errPlain = errors.New("the address that it gives is without TLS, and this connection is with TLS")

// find asks a member at its client addresses, until one answers.
func (b *Broker) find(ctx context.Context, known *pb.Member) Member {
	m := Member{Err: errors.New("it has not started")}
	for _, url := range known.ClientURLs {
		// The client would connect without TLS and send the user's token, and anyone with
		// the right to add a member could read it.
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
	return b.call(ctx, "compact", "", func(ctx context.Context) error {
		_, err := b.client.KV.Compact(ctx, int64(revision), clientv3.WithCompactPhysical())
		return err
	})
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
	// A leader can lose its leadership meanwhile, so the other members come first.
	for _, leader := range []bool{false, true} {
		for _, m := range before {
			if m.Err != nil || m.Leader != leader {
				continue
			}
			if err := b.defragment(ctx, m); err != nil {
				return err
			}
		}
	}
	after, err := b.Members(ctx)
	if err != nil {
		return err
	}
	for _, m := range after {
		// Without room for one more value the alarm would be raised again at once.
		if m.Err == nil && m.Quota > 0 && m.DBSize+broker.ValueBytesMax >= m.Quota {
			return broker.NewError("reclaim", m.Endpoint, broker.ErrNoSpace,
				fmt.Errorf("%d bytes are still in use; the quota is %d", m.InUse, m.Quota))
		}
	}
	return b.disarm(ctx)
}

// compactNow forgets the history up to the present revision. Watches that are up to date do
// not notice; those that lag must list again.
func (b *Broker) compactNow(ctx context.Context) error {
	var revision int64
	err := b.call(ctx, "reclaim", "", func(ctx context.Context) error {
		answer, err := b.client.Get(ctx, "\x00", clientv3.WithCountOnly())
		if err == nil {
			revision = answer.Header.Revision
		}
		return err
	})
	if err != nil {
		return readOnly(err)
	}
	if err := b.Compact(ctx, broker.Revision(revision)); err != nil && !errors.Is(err, broker.ErrCompacted) {
		return err
	}
	return nil
}

// defragmentMax limits the time for one member's database.
const defragmentMax = 5 * time.Minute

func (b *Broker) defragment(ctx context.Context, m Member) error {
	ctx, leave, err := b.enter(ctx, "reclaim", m.Endpoint)
	if err != nil {
		return err
	}
	defer leave()
	bounded, cancel := context.WithTimeout(ctx, defragmentMax)
	defer cancel()
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

// disarm ends the alarms about space, and no others.
func (b *Broker) disarm(ctx context.Context) error {
	return readOnly(b.call(ctx, "disarm", "", func(ctx context.Context) error {
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
	}))
}
