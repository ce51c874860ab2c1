package keys

import (
	"cmp"
	"strings"

	"github.com/windlass-go/windlass/internal/invalid"
)

// Space builds and parses the keys of one namespace. The zero value is not valid; use
// New.
type Space struct {
	root string // "/name" without a trailing slash
}

// New returns the space of a namespace. Surrounding spaces and slashes do not
// count: "x", "/x" and " /x/ " are one namespace.
func New(namespace string) (Space, error) {
	trimmed := strings.Trim(strings.TrimSpace(namespace), "/")
	refuse := func(limit string) (Space, error) {
		return Space{}, &invalid.Input{Field: "namespace", Value: namespace, Limit: limit}
	}
	if trimmed == "" {
		return refuse("must not be empty")
	}
	if len(trimmed) > NamespaceBytesMax {
		return refuse("is longer than 200 bytes")
	}
	for segment := range strings.SplitSeq(trimmed, "/") {
		if err := checkSegment("namespace", segment, NamespaceBytesMax); err != nil {
			return refuse("each part between slashes: " + err.(*invalid.Input).Limit)
		}
	}
	return Space{root: "/" + trimmed}, nil
}

// Root is the namespace with its leading slash.
func (s Space) Root() string { return s.root }

// All is the prefix of everything in the namespace.
func (s Space) All() string { return s.root + "/" }

// Layout is the key that says which version of this layout the namespace has.
func (s Space) Layout() string { return s.root + "/layout" }

// Nodes is the prefix of everything about nodes.
func (s Space) Nodes() string { return s.root + "/nodes/" }

// Sessions is the prefix below which brokers keep whether a session is alive.
func (s Space) Sessions() string { return s.root + "/sessions/" }

// Tasks is the prefix of everything about tasks that are not done.
func (s Space) Tasks() string { return s.root + "/tasks/" }

// States is the prefix of the tasks' states.
func (s Space) States() string { return s.root + "/state/" }

// Claims is the prefix of the records of claims.
func (s Space) Claims() string { return s.root + "/claims/" }

// NodeInfo is the registration of a node.
func (s Space) NodeInfo(node string) string { return s.root + "/nodes/" + node + "/info" }

// NodeCordon is the key that keeps a node from getting tasks. It outlives the node.
func (s Space) NodeCordon(node string) string { return s.root + "/nodes/" + node + "/cordon" }

// NodeCordonAttempt is the ephemeral key of whoever changes a cordon.
func (s Space) NodeCordonAttempt(node string) string { return s.NodeCordon(node) + "-attempt" }

// TypePause is the key that keeps the tasks of a type from running. It is below Nodes
// because every node heeds it. No node has the name of its folder.
func (s Space) TypePause(taskType string) string {
	return s.root + "/nodes/" + pausesFolder + "/" + cmp.Or(taskType, emptyType)
}

// TypePauseAttempt is the ephemeral key of whoever changes the pause of a type.
func (s Space) TypePauseAttempt(taskType string) string {
	return s.root + "/nodes/" + pausesFolder + "-attempt/" + cmp.Or(taskType, emptyType)
}

// pausesFolder and emptyType begin with an underscore, which no node and no type does.
const (
	pausesFolder = "_paused"
	emptyType    = "_"
)

// NodeReturn is the promise of a node that is away to be back. It outlives the node.
func (s Space) NodeReturn(node string) string { return s.root + "/nodes/" + node + "/return" }

// NodeDeath is the record of the death of one incarnation of a node.
func (s Space) NodeDeath(node, incarnation string) string {
	return s.root + "/nodes/" + node + "/deaths/" + incarnation
}

// NodeCommands is the prefix of the commands to a node.
func (s Space) NodeCommands(node string) string { return s.root + "/nodes/" + node + "/commands/" }

// NodeCommand is one command to a node.
func (s Space) NodeCommand(node, id string) string { return s.NodeCommands(node) + id }

// Task is the key whose existence makes a task exist.
func (s Space) Task(id string) string { return s.root + "/tasks/" + id }

// Props are a task's properties.
func (s Space) Props(id string) string { return s.root + "/tasks/" + id + "/props" }

// Owner is the ephemeral key whose creation is the claim.
func (s Space) Owner(id string) string { return s.root + "/tasks/" + id + "/owner" }

// Handover is the key that names the node that a task was released for. It is ephemeral,
// unless it names the node that released the task and is to be back: then it is permanent.
func (s Space) Handover(id string) string { return s.root + "/tasks/" + id + "/handover" }

// Histories is the prefix of the tasks' histories.
func (s Space) Histories() string { return s.root + "/history/" }

// History is a task's history.
func (s Space) History(id string) string { return s.root + "/history/" + id }

// Progress is the progress that a task's handler saved.
func (s Space) Progress(id string) string { return s.root + "/progress/" + id }

// TaskCommands is the prefix of the commands to tasks.
func (s Space) TaskCommands() string { return s.root + "/commands/" }

// Claim is the record of when and by which incarnation a task was claimed.
func (s Space) Claim(id string) string { return s.root + "/claims/" + id }

// State is a task's state.
func (s Space) State(id string) string { return s.root + "/state/" + id }

// TaskCommand is the pending command to a task.
func (s Space) TaskCommand(id string) string { return s.root + "/commands/" + id }

// Elections is the prefix of all elections.
func (s Space) Elections() string { return s.root + "/elections/" }

// Election is the prefix of the candidates of an election.
func (s Space) Election(name string) string { return s.root + "/elections/" + name + "/" }

// Candidate is the ephemeral key whose creation puts a candidate in line.
func (s Space) Candidate(election, candidate string) string { return s.Election(election) + candidate }

// Kind is the kind of a key.
type Kind uint8

// The kinds of keys.
const (
	// Unknown is a key that Windlass neither reads nor changes.
	Unknown Kind = iota
	// NodeInfo is nodes/<node>/info.
	NodeInfo
	// NodeCordon is nodes/<node>/cordon.
	NodeCordon
	// NodeReturn is nodes/<node>/return.
	NodeReturn
	// TypePause is nodes/_paused/<type>; its name is the type.
	TypePause
	// NodeCommand is nodes/<node>/commands/<id>.
	NodeCommand
	// NodeDeath is nodes/<node>/deaths/<incarnation>.
	NodeDeath
	// Task is tasks/<task>.
	Task
	// Props is tasks/<task>/props.
	Props
	// Owner is tasks/<task>/owner.
	Owner
	// Handover is tasks/<task>/handover.
	Handover
	// Failed is tasks/<task>/failed.
	Failed
	// Requeue is tasks/<task>/requeue.
	Requeue
	// Claim is claims/<task>.
	Claim
	// History is history/<task>.
	History
	// Progress is progress/<task>.
	Progress
	// State is state/<task>.
	State
	// TaskCommand is commands/<task>.
	TaskCommand
	// Job is tree/<job>/<job>/…; its name is the ID of the task.
	Job
	// Layout is layout. It has no name.
	Layout
	// Candidate is elections/<election>/<candidate>; its name is the election's.
	Candidate
)

// Parsed is a parsed key.
type Parsed struct {
	Kind Kind
	// Name is the task's ID or the name of the node, of the election or of the type.
	Name string
	// Command is the ID of a node command, Incarnation that of a node that died.
	Command, Incarnation string
	// Candidate is the name of a candidate.
	Candidate string
}

// Parse parses a key. A key that this package could not have built is Unknown, one with
// an invalid name included.
func (s Space) Parse(key string) Parsed {
	rest, ok := strings.CutPrefix(key, s.root+"/")
	if !ok {
		return Parsed{}
	}
	if rest == "layout" {
		return Parsed{Kind: Layout}
	}
	area, rest, ok := strings.Cut(rest, "/")
	if !ok {
		return Parsed{}
	}
	if area == "tree" {
		return parseJob(rest)
	}
	name, leaf, deeper := strings.Cut(rest, "/")
	switch area {
	case "nodes":
		return parseNode(name, leaf)
	case "elections":
		return parseCandidate(name, leaf)
	}
	kind := areas[area]
	if deeper {
		kind = leaves[area+"/"+leaf]
	}
	if kind == Unknown || CheckTaskID(name) != nil {
		return Parsed{}
	}
	return Parsed{Kind: kind, Name: name}
}

// areas has the kinds of the keys <area>/<task>, and leaves those of <area>/<task>/<leaf>.
var (
	areas  = map[string]Kind{"tasks": Task, "state": State, "claims": Claim, "history": History, "progress": Progress, "commands": TaskCommand}
	leaves = map[string]Kind{"tasks/props": Props, "tasks/owner": Owner, "tasks/handover": Handover, "tasks/failed": Failed, "tasks/requeue": Requeue}
)

func parseNode(name, leaf string) Parsed {
	if name == pausesFolder {
		return parsePause(leaf)
	}
	if CheckNodeName(name) != nil {
		return Parsed{}
	}
	switch leaf {
	case "info":
		return Parsed{Kind: NodeInfo, Name: name}
	case "cordon":
		return Parsed{Kind: NodeCordon, Name: name}
	case "return":
		return Parsed{Kind: NodeReturn, Name: name}
	}
	folder, id, ok := strings.Cut(leaf, "/")
	switch {
	case !ok || id == "" || strings.Contains(id, "/"):
	case folder == "commands":
		return Parsed{Kind: NodeCommand, Name: name, Command: id}
	case folder == "deaths":
		return Parsed{Kind: NodeDeath, Name: name, Incarnation: id}
	}
	return Parsed{}
}

func parsePause(taskType string) Parsed {
	switch {
	case taskType == emptyType:
		return Parsed{Kind: TypePause}
	case CheckTaskID(taskType) == nil: // types are named as tasks are
		return Parsed{Kind: TypePause, Name: taskType}
	}
	return Parsed{}
}

func parseCandidate(election, candidate string) Parsed {
	if CheckElectionName(election) != nil || CheckCandidateName(candidate) != nil {
		return Parsed{}
	}
	return Parsed{Kind: Candidate, Name: election, Candidate: candidate}
}
