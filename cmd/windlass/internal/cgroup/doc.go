// Package cgroup puts processes into groups that the kernel ends as one, whatever they
// start and however they detach it: control groups, version 2, with cgroup.kill (Linux
// 5.14). Elsewhere every call says that there are none.
//
// A held group belongs to the process that made it for as long as that lives, which a
// lock on its folder tells: the kernel lets go of it with the process. What is in a group
// that nobody holds has lost whoever had a right to end it, and Sweep ends it.
//
//	<own group of the process>/windlass-<random>         made by Make, held
//	<own group of the process>/windlass-<random>/<name>  made by Child
package cgroup

import "errors"

// ErrUnavailable is every reason for which there are no groups here: another system, an
// older kernel, a folder that may not be written.
var ErrUnavailable = errors.New("no control groups")
