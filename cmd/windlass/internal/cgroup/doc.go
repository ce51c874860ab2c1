// Package cgroup puts processes into groups that the kernel ends as a whole, whatever they
// start and however they detach it: control groups, version 2, with cgroup.kill (Linux
// 5.14). On other systems every call returns ErrUnavailable.
//
// A held group belongs to the process that made it as long as that lives. A lock on the
// group's folder marks it as held: the kernel releases it with the process. Sweep ends the
// groups that no process holds.
//
//	<own group of the process>/windlass-<random>         made by Make, held
//	<own group of the process>/windlass-<random>/<name>  made by Child
package cgroup

import "errors"

// ErrUnavailable means that there are no groups, for whatever reason: another system, an
// older kernel, a folder that is not writable.
var ErrUnavailable = errors.New("no control groups")
