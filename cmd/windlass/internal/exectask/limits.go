package exectask

import "time"

// Limits of what the package accepts, and defaults for zero fields of Config and Command.
// Sizes are in bytes.
const (
	// PropsMax is the size of a task's props.
	PropsMax = 512 << 10
	// ArgsMax is the number of elements of a command.
	ArgsMax = 1024
	// ArgMax is the size of one element: the kernel takes 128 KiB with its NUL.
	ArgMax = 128<<10 - 1
	// CommandMax is the size of all elements together.
	CommandMax = 256 << 10
	// EnvMax is the number of variables that props may set.
	EnvMax = 256
	// EnvBytesMax is the size of all their names and values together.
	EnvBytesMax = 128 << 10
	// EnvironBytesMax is the size of Command.Environ.
	EnvironBytesMax = 1 << 20
	// DirMax is the size of a folder's name: PATH_MAX less its NUL.
	DirMax = 4095
	// TaskMax is the size of a task's ID.
	TaskMax = 512
	// TokenMax is the size of a fencing token's text.
	TokenMax = 128
	// AllowMax is the number of entries of an allow-list.
	AllowMax = 1024
	// RunsMax is the number of runs of one node at a time.
	RunsMax = 4096

	// TailDefault is how much of the output's end a Result carries.
	TailDefault = 4 << 10
	// TailMax is the largest Config.Tail.
	TailMax = 64 << 10
	// LogDefault is the size at which a task's log is rotated.
	LogDefault = 10 << 20
	// LogMin is the least Config.LogMax and Config.LogSpace.
	LogMin = 4 << 10
	// LogAgeDefault is for how long a log is kept after it was last written to.
	LogAgeDefault = 7 * 24 * time.Hour
	// LogSpaceDefault is the size of all logs in a folder.
	LogSpaceDefault = 1 << 30

	// GraceDefault is the time between SIGTERM and SIGKILL.
	GraceDefault = 4 * time.Second
	// GraceMax is the longest grace.
	GraceMax = time.Hour
	// AnswerDefault is how long the supervisor may stay silent.
	AnswerDefault = 3 * time.Second
	// StartMax is how long a supervisor may take to say hello.
	StartMax = 10 * time.Second
)

const (
	// frameMax fits the largest start order: argv, env and folder in base64.
	frameMax = 2 << 20
	// tick bounds how late a deadline is noticed after the time of day was set, or the
	// machine was suspended: Go's timers stand still meanwhile.
	tick = 100 * time.Millisecond
	// drainMax is how long output is still read once every process of a run is gone: a
	// process outside the run may hold the pipe.
	drainMax = time.Second
	// sweepMax is how long the node tries to kill what a lost supervisor left behind.
	sweepMax = 5 * time.Second
	// scanPauseMin and scanPauseMax bound the pause between two walks through
	// the process table while a run is ending.
	scanPauseMin = 2 * time.Millisecond
	scanPauseMax = 250 * time.Millisecond
	// scanShare is the pause in multiples of the last walk, so that walks of up to 60 ms
	// take at most a fifth of a core. The pause after a longer one is scanPauseMax, because
	// its length may be that of a freeze or a suspend.
	scanShare = 4
	// environMax is how much of a process's environment is searched.
	environMax = 512 << 10
)
