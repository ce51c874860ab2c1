package simulation

import (
	"context"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// members stand for those of a cluster beside the server that there is: one that leads
// freezes, as a paused machine does, and goes on when another leads. For a moment it then
// takes itself for the leader still, with what it knew when it froze: it answers renewals
// without asking anybody, and ends leases that were renewed elsewhere, which the one that
// leads carries out (etcd 3.7.3, server.go, ensureLeadership and revokeExpiredLeases).
type members struct {
	mu sync.Mutex
	// leases are those that there are, and frozen what the frozen member knows of them,
	// nil while none is.
	leases, frozen map[int64]lease
	// thawed tells that the frozen member has gone on.
	thawed bool
	// lines are the connections.
	lines []*memberLine
	// grants counts the leases that were granted, and mute tells that the last one's
	// answer was lost, as the next request to end one is.
	grants int
	mute   bool
	// held are the grants that the frozen member was asked for.
	held []*pb.LeaseGrantRequest
}

// grantLostEach is of how many grants the answer to the last is lost.
const grantLostEach = 6

var errLost = status.Error(codes.Unavailable, "error reading from server: EOF")

// lease is one as the member knows it that leads.
type lease struct {
	ttl     int64 // in seconds
	expires time.Time
}

// memberLine is a connection. behind tells that it reaches only the frozen member; it is
// guarded by members.mu.
type memberLine struct {
	pb.KVClient
	pb.LeaseClient
	members *members
	behind  bool
}

// between is embedded.Config.Between.
func (m *members) between(txns pb.KVClient, leases pb.LeaseClient) (pb.KVClient, pb.LeaseClient) {
	m.mu.Lock()
	defer m.mu.Unlock()
	l := &memberLine{KVClient: txns, LeaseClient: leases, members: m}
	m.lines = append(m.lines, l)
	return l, l
}

// freeze makes the member that leads freeze, with some of the connections.
func (m *members) freeze(random *rand.Rand) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.frozen, m.thawed = maps.Clone(m.leases), false
	for _, l := range m.lines {
		l.behind = random.IntN(3) == 0
	}
}

// thaw lets it go on, as one that leads.
func (m *members) thaw(ctx context.Context) {
	m.mu.Lock()
	m.thawed = true
	var expired []int64
	for _, id := range slices.Sorted(maps.Keys(m.frozen)) {
		if !m.frozen[id].expires.After(time.Now()) {
			expired = append(expired, id)
		}
	}
	var leases pb.LeaseClient
	if len(m.lines) > 0 {
		leases = m.lines[len(m.lines)-1].LeaseClient
	}
	held := m.held
	m.held = nil
	m.mu.Unlock()
	for _, r := range held {
		_, _ = leases.LeaseGrant(ctx, r) // nobody waits for the answer
	}
	for _, id := range expired {
		// One that has ended is as good as ended.
		_, _ = leases.LeaseRevoke(ctx, &pb.LeaseRevokeRequest{ID: id})
	}
}

// follow makes it learn that another leads.
func (m *members) follow() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.frozen, m.thawed = nil, false
	for _, l := range m.lines {
		l.behind = false
	}
}

// renewed notes what the member knows that leads.
func (m *members) renewed(id, ttl int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.leases == nil {
		m.leases = map[int64]lease{}
	}
	m.leases[id] = lease{ttl, time.Now().Add(time.Duration(ttl) * time.Second)}
}

// reaches tells whether a connection reaches the member that leads.
func (l *memberLine) reaches() bool {
	l.members.mu.Lock()
	defer l.members.mu.Unlock()
	return l.members.frozen == nil || !l.behind
}

// Txn goes through the member that leads or nowhere.
func (l *memberLine) Txn(ctx context.Context, r *pb.TxnRequest, options ...grpc.CallOption) (*pb.TxnResponse, error) {
	if !l.reaches() {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return l.KVClient.Txn(ctx, r, options...)
}

// LeaseGrant goes through the member that leads, now or when it goes on.
func (l *memberLine) LeaseGrant(ctx context.Context, r *pb.LeaseGrantRequest, options ...grpc.CallOption) (*pb.LeaseGrantResponse, error) {
	if !l.reaches() {
		l.members.mu.Lock()
		l.members.held = append(l.members.held, r)
		l.members.mu.Unlock()
		<-ctx.Done()
		return nil, ctx.Err()
	}
	answer, err := l.LeaseClient.LeaseGrant(ctx, r, options...)
	if err != nil {
		return nil, err
	}
	l.members.renewed(answer.ID, answer.TTL)
	if l.members.losesGrant() {
		return nil, errLost
	}
	return answer, nil
}

// losesGrant tells whether the answer to a grant is lost, as one in six is.
func (m *members) losesGrant() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.grants++
	m.mute = m.grants%grantLostEach == 0
	return m.mute
}

// LeaseRevoke is lost after a lost grant: what was granted is not ended at once.
func (l *memberLine) LeaseRevoke(ctx context.Context, r *pb.LeaseRevokeRequest, options ...grpc.CallOption) (*pb.LeaseRevokeResponse, error) {
	l.members.mu.Lock()
	mute := l.members.mute
	l.members.mute = false
	l.members.mu.Unlock()
	if mute {
		return nil, errLost
	}
	return l.LeaseClient.LeaseRevoke(ctx, r, options...)
}

// LeaseKeepAlive is answered by whatever member the connection reaches.
func (l *memberLine) LeaseKeepAlive(ctx context.Context, options ...grpc.CallOption) (pb.Lease_LeaseKeepAliveClient, error) {
	stream, err := l.LeaseClient.LeaseKeepAlive(ctx, options...)
	return &memberStream{Lease_LeaseKeepAliveClient: stream, line: l, ctx: ctx}, err
}

// memberStream is a stream of renewals, of one that is under way at a time.
type memberStream struct {
	pb.Lease_LeaseKeepAliveClient
	line *memberLine
	ctx  context.Context
	// id is of the last renewal that did not reach the member that leads, zero if it did.
	id int64
}

// Send implements the stream.
func (s *memberStream) Send(r *pb.LeaseKeepAliveRequest) error {
	if s.id = 0; !s.line.reaches() {
		s.id = r.ID
		return nil
	}
	return s.Lease_LeaseKeepAliveClient.Send(r)
}

// Recv implements the stream. A frozen member is silent; one that has gone on extends
// what nobody else knows of.
func (s *memberStream) Recv() (*pb.LeaseKeepAliveResponse, error) {
	if s.id != 0 {
		m := s.line.members
		m.mu.Lock()
		known, ok := m.frozen[s.id]
		ok = ok && m.thawed
		m.mu.Unlock()
		if ok {
			return &pb.LeaseKeepAliveResponse{ID: s.id, TTL: known.ttl}, nil
		}
		<-s.ctx.Done()
		return nil, s.ctx.Err()
	}
	answer, err := s.Lease_LeaseKeepAliveClient.Recv()
	if err == nil && answer.TTL > 0 {
		s.line.members.renewed(answer.ID, answer.TTL)
	}
	return answer, err
}

// staleFor is how long a member that has gone on takes itself for the leader: an
// election timeout and what it takes to hear from the others.
const staleFor = 2 * time.Second

// freezeLeader freezes the member that leads for a while.
func (w *world) freezeLeader() bool {
	w.stage.members.freeze(w.random)
	w.sleep(time.Duration(w.random.Int64N(int64(2 * w.profile.ttl))))
	w.stage.members.thaw(w.t.Context())
	w.sleep(staleFor)
	w.stage.members.follow()
	return !w.stage.guarded // whose connections go past the members
}
