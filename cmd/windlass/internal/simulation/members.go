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

// members simulates other members of the cluster. The leading member freezes, as a
// paused machine does, and resumes when another one leads. For a moment it then still
// believes that it leads, with its old knowledge. It answers renewals without asking the
// others, and ends leases that were renewed elsewhere, which the leader carries out
// (etcd 3.7.3, server.go, ensureLeadership and revokeExpiredLeases).
type members struct {
	mu sync.Mutex
	// leases has all leases, and frozen those that the frozen member knows, nil while
	// none is frozen.
	leases, frozen map[int64]etcdLease
	// thawed is true once the frozen member has resumed.
	thawed bool
	// lines are the connections.
	lines []*memberLine
	// grants counts the granted leases. mute is true if the last answer was lost; the
	// next request to end a lease is lost as well.
	grants int
	mute   bool
	// held has the grants requested from the frozen member.
	held []*pb.LeaseGrantRequest
}

// grantLostEach is the number of grants of which one answer is lost.
const grantLostEach = 6

var errLost = status.Error(codes.Unavailable, "error reading from server: EOF")

// etcdLease is a lease as the leading member knows it.
type etcdLease struct {
	ttl     int64 // in seconds
	expires time.Time
}

// memberLine is a connection. behind is true if it reaches only the frozen member;
// members.mu guards it.
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

// freeze freezes the leading member, with some of the connections.
func (m *members) freeze(random *rand.Rand) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.frozen, m.thawed = maps.Clone(m.leases), false
	for _, l := range m.lines {
		l.behind = random.IntN(3) == 0
	}
}

// thaw resumes the frozen member, which believes that it leads.
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
		_, _ = leases.LeaseGrant(ctx, r) // no one waits for the answer
	}
	for _, id := range expired {
		_, _ = leases.LeaseRevoke(ctx, &pb.LeaseRevokeRequest{ID: id}) // it may have ended already
	}
}

// follow makes the resumed member learn that another one leads.
func (m *members) follow() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.frozen, m.thawed = nil, false
	for _, l := range m.lines {
		l.behind = false
	}
}

// renewed records a renewal that the leading member has answered.
func (m *members) renewed(id, ttl int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.leases[id] = etcdLease{ttl, time.Now().Add(time.Duration(ttl) * time.Second)}
}

// reaches reports whether a connection reaches the leading member.
func (l *memberLine) reaches() bool {
	l.members.mu.Lock()
	defer l.members.mu.Unlock()
	return l.members.frozen == nil || !l.behind
}

// Txn goes to the leading member, or is never answered.
func (l *memberLine) Txn(ctx context.Context, r *pb.TxnRequest, options ...grpc.CallOption) (*pb.TxnResponse, error) {
	if !l.reaches() {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return l.KVClient.Txn(ctx, r, options...)
}

// LeaseGrant goes to the leading member, now or when the frozen one resumes.
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
	l.members.mu.Lock()
	defer l.members.mu.Unlock()
	l.members.grants++
	if l.members.mute = l.members.grants%grantLostEach == 0; l.members.mute {
		return nil, errLost
	}
	return answer, nil
}

// LeaseRevoke is lost after a lost grant, so that the lease is not ended at once.
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

// LeaseKeepAlive is answered by the member that the connection reaches.
func (l *memberLine) LeaseKeepAlive(ctx context.Context, options ...grpc.CallOption) (pb.Lease_LeaseKeepAliveClient, error) {
	stream, err := l.LeaseClient.LeaseKeepAlive(ctx, options...)
	return &memberStream{Lease_LeaseKeepAliveClient: stream, line: l, ctx: ctx}, err
}

// memberStream is a stream of renewals, one in flight at a time.
type memberStream struct {
	pb.Lease_LeaseKeepAliveClient
	line *memberLine
	ctx  context.Context
	// id is the lease of the last renewal if it did not reach the leading member, else
	// zero.
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

// Recv implements the stream. A frozen member does not answer; one that has resumed
// extends leases without the knowledge of the others.
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

// staleFor is how long a resumed member believes that it leads: an election timeout and
// the time until it hears from the others.
const staleFor = 2 * time.Second

// freezeLeader freezes the leading member for a while.
func (w *world) freezeLeader() bool {
	w.stage.members.freeze(w.random)
	w.sleep(upTo(w.random, 2*w.profile.ttl))
	w.stage.members.thaw(w.t.Context())
	w.sleep(staleFor)
	w.stage.members.follow()
	return !w.stage.guarded // connections with a password do not go through members
}
