// Package life has the life of a task that a node holds, as two tables: what an event makes of it in each phase, and
// what becomes of it once its handler has returned.
package life

// Phase is what a held task is doing.
type Phase uint8

// The phases.
const (
	// Beginning: it was claimed, and nothing is decided yet. No event comes between.
	Beginning Phase = iota
	// Running: its handler runs.
	Running
	// Stopping: its handler was told to stop.
	Stopping
	// Saving: a state is being stored, and takes effect afterwards.
	Saving
	// Parked: it is held without a handler.
	Parked
	// Ending: the claim is being given back, or the task removed.
	Ending
	phases
)

var phaseNames = [phases]string{"beginning", "running", "stopping", "saving", "parked", "ending"}

// String returns the name of the phase.
func (p Phase) String() string { return phaseNames[p] }

// Event is something that happens to a held task.
type Event uint8

// The events.
const (
	// Stop: it is to be given back, for a cause: it moves, is drained, was deleted or changed, or the process that ran
	// it has died.
	Stop Event = iota
	// Lose: the claim is gone.
	Lose
	// Command: a command to it is heard.
	Command
	// Expire: the time for its run is over.
	Expire
	// Due: the time has come that it waits for.
	Due
	// PauseType: its type is paused.
	PauseType
	// ResumeType: its type is paused no more.
	ResumeType
	// Change: it was submitted with a change.
	Change
	events
)

var eventNames = [events]string{"stop", "lose", "command", "expire", "due", "pause type", "resume type", "change"}

// Reaction is what an event makes of a task.
type Reaction uint8

// The reactions.
const (
	// Nothing: the event is over, or what is under way finds out by itself.
	Nothing Reaction = iota
	// StopHandler: the handler is told to stop, for the cause of the event.
	StopHandler
	// Tell: the handler is told of it if it listens, and stopped otherwise.
	Tell
	// Note: the cause counts once the state is stored, also in place of another.
	Note
	// NoteFirst: the cause counts once the handler has returned, or the end is taken back, if there is none yet.
	NoteFirst
	// Act: the event is carried out at once.
	Act
	// GiveBack: the claim is given back.
	GiveBack
	// Forget: the task is held no more.
	Forget
	reactions
)

var reactionNames = [reactions]string{"-", "stop handler", "tell", "note", "note first", "act", "give back", "forget"}

// String returns the name of the reaction.
func (r Reaction) String() string { return reactionNames[r] }

// table has the reactions by event and phase. A command that finds none waits in its slot until the next phase asks for
// it, as a pause of the type and a change do.
var table = [events][phases]Reaction{
	Stop:       {Running: StopHandler, Stopping: NoteFirst, Saving: Note, Parked: GiveBack, Ending: NoteFirst},
	Lose:       {Running: StopHandler, Stopping: StopHandler, Saving: Note, Parked: Forget},
	Command:    {Running: Tell, Stopping: Tell, Parked: Act},
	Expire:     {Running: StopHandler},
	Due:        {Parked: Act},
	PauseType:  {Running: StopHandler, Parked: Act},
	ResumeType: {Parked: Act},
	Change:     {Running: Tell, Parked: GiveBack},
}

// On returns what an event makes of a task in this phase.
func (p Phase) On(e Event) Reaction { return table[e][p] }
