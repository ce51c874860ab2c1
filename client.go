package windlass

import (
	"context"
	"strings"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/events"
	"github.com/windlass-go/windlass/internal/keys"
	"github.com/windlass-go/windlass/internal/layout"
	"github.com/windlass-go/windlass/internal/listing"
	"github.com/windlass-go/windlass/internal/shorten"
	"github.com/windlass-go/windlass/session"
	"github.com/windlass-go/windlass/statemachine"
)

// Client submits, inspects and controls tasks and nodes; it runs nothing. Its methods
// are safe for concurrent use. Broker errors are passed on as those of package broker.
// If the namespace's layout is newer than this version supports, a client writes
// nothing and returns ErrLayout.
type Client struct {
	broker broker.Broker
	space  keys.Space
	layout layout.Guard
	// tracer is nil for none.
	tracer events.Tracer
	// copy answers lists; nil means that the broker does.
	copy    *listing.Copy
	silence session.Silence
}

// ClientOption is an option of NewClient.
type ClientOption func(*Client)

// WithTracer makes a client record spans of submissions.
func WithTracer(t events.Tracer) ClientOption { return func(c *Client) { c.tracer = t } }

// NewClient returns a client for a namespace; an empty one means NamespaceDefault. The
// client does not close the broker.
func NewClient(b broker.Broker, namespace string, options ...ClientOption) (*Client, error) {
	if b == nil {
		return nil, badInput("broker", "", "must be set")
	}
	if namespace == "" {
		namespace = NamespaceDefault
	}
	space, err := keys.New(namespace)
	if err != nil {
		return nil, err
	}
	c := &Client{broker: b, space: space}
	for _, option := range options {
		option(c)
	}
	return c, nil
}

// Broker returns the client's broker. What is written through it is in the next list of the client, as is what the client
// writes.
func (c *Client) Broker() broker.Broker { return c.broker }

// Namespace returns the client's namespace.
func (c *Client) Namespace() string { return c.space.Root() }

// Silence tells which sessions of the namespace's nodes are not renewed, and remembers what the client has seen of them.
func (c *Client) Silence() *session.Silence { return &c.silence }

type callerKey struct{}

// WithCaller returns a context in which somebody makes changes: a task names who submitted
// or changed it last, its history who sent it commands, changed, restarted or deleted it, and a
// cordon or the pause of a type who made it. The name is for people and proves nothing,
// since whoever may write to the broker can give any. Of one that is longer than
// statemachine.CommandByBytesMax bytes the beginning is kept.
func WithCaller(ctx context.Context, name string) context.Context {
	return context.WithValue(ctx, callerKey{}, shorten.To(strings.ToValidUTF8(name, "\uFFFD"), statemachine.CommandByBytesMax-len("…")))
}

// Caller returns who makes the changes of a context (WithCaller), empty if that is not known.
func Caller(ctx context.Context) string {
	name, _ := ctx.Value(callerKey{}).(string)
	return name
}
